"""`python -m bunny_probe.phantom`: the phantom without the rest of the command line."""

from __future__ import annotations

import argparse
import sys

from bunny_probe.errors import BunnyError
from bunny_probe.phantom.behaviour import Behaviour
from bunny_probe.phantom.loading import load_behaviours
from bunny_probe.phantom.presets import PRESETS, preset
from bunny_probe.phantom.serving import serve


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("bunny_probe.phantom", description="A simulated endpoint of known truth.")
    parser.add_argument(
        "--model", action="append", default=[], help=f"a preset: {', '.join(PRESETS)}; repeatable"
    )
    parser.add_argument(
        "--behaviour", action="append", default=[], help="TOML or JSON file of models; repeatable"
    )
    parser.add_argument("--key", help="JSON Lines file of right answers")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--ready-file", help="gets url, model and pid as JSON once requests are taken")
    parser.add_argument(
        "--script", action="append", default=[], help="a fault for the next request; repeatable"
    )
    parser.add_argument(
        "--pattern", action="append", default=[], help="regex with groups key and value; repeatable"
    )
    parser.add_argument("--api-key-env", help="environment variable with the key that clients must send")
    options = parser.parse_args(arguments)
    try:
        behaviours: list[Behaviour] = [preset(name) for name in options.model]
        for path in options.behaviour:
            behaviours += load_behaviours(path)
        serve(
            behaviours or None,
            options.key,
            host=options.host,
            port=options.port,
            ready_file=options.ready_file,
            script=options.script,
            patterns=options.pattern,
            api_key_env=options.api_key_env,
        )
    except BunnyError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
