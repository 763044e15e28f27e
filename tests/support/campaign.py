"""A small campaign in a process of its own, to be killed: URL MODEL RUN COUNT CONCURRENCY."""

from __future__ import annotations

import sys

from trials import render, trials

from bunny_probe.endpoints import EndpointSpec, open_endpoint
from bunny_probe.runs import Store, run_sync, run_trials


async def main(url: str, model: str, path: str, count: str, concurrency: str) -> None:
    plan = trials(int(count))
    async with open_endpoint(EndpointSpec(url, model)) as endpoint:
        with Store(path) as store:
            print("begun", flush=True)
            await run_trials(store, endpoint, plan, render, concurrency=int(concurrency))
    print("done", flush=True)


if __name__ == "__main__":
    run_sync(lambda: main(*sys.argv[1:]))
