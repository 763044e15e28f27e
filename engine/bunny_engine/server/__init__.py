"""The engine's HTTP server: OpenAI's chat and completions API over any `Engine` and `Tokenizer`.

app = create_app(engine, tokenizer, Settings(api_key=key))
serve(app, listen("127.0.0.1", 0))
"""

from bunny_engine.server.app import create_app
from bunny_engine.server.serving import listen, serve
from bunny_engine.server.settings import Settings

__all__ = ["Settings", "create_app", "listen", "serve"]
