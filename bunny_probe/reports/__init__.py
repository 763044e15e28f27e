"""Reports: what notebooks show, and how a notebook becomes an HTML file.

notebook cell ──▶ reports.diagnose.<section>(study) ──▶ display.{figure, table, finding, tiles}
reports.html.execute (papermill) ──▶ reports.html.write_html (no code, no scripts, no network)
"""

from __future__ import annotations

from bunny_probe.reports.study import Study, open_study

__all__ = ["Study", "open_study"]
