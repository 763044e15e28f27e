"""The engine's HTTP server: OpenAI's chat and completions API over any `Engine` and `Tokenizer`.

app = create_app(engine, tokenizer, Settings(api_key=key))
await uvicorn.Server(http_config(app)).serve(sockets=[bound])
"""

from bunny_engine.server.app import create_app
from bunny_engine.server.serving import http_config
from bunny_engine.server.settings import Settings

__all__ = ["Settings", "create_app", "http_config"]
