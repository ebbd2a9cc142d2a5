"""Run the experiments and write their results to ``experiments/RESULTS.md``.

``python -m experiments`` runs all of them in full; ``--only NAME ...`` some, whose sections are replaced while
the others stay.
"""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments._common import Record, add_arguments, load_experiment, measure, options_from

HERE = Path(__file__).parent
_HEAD = (
    "# Results\n\nWritten by `python -m experiments`: our figures beside the published ones, and the targets "
    "that decide the exit status.\n"
)


def experiment_names() -> list[str]:
    """All experiments, by name."""
    return sorted(info.name for info in pkgutil.iter_modules([str(HERE)]) if not info.name.startswith("_"))


def merge_sections(text: str, records: Sequence[Record]) -> str:
    """``text`` of a results file with the sections of ``records`` put in, sections by name.

    Parameters
    ----------
    text : str
        The file so far, possibly empty.
    records : sequence of Record

    Returns
    -------
    str
    """
    sections = {}
    for part in ("\n" + text).split("\n## ")[1:]:
        sections[part.split("\n", 1)[0].strip()] = "## " + part.rstrip() + "\n"
    sections.update({record.name: record.as_markdown() for record in records})
    return "\n".join([_HEAD, *(sections[name] for name in sorted(sections))])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen experiments; 1 when a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.add_argument(
        "--only", nargs="+", choices=experiment_names(), metavar="NAME", help="run these only"
    )
    parser.add_argument("--results", type=Path, default=HERE / "RESULTS.md", help="the file to write")
    arguments = parser.parse_args(argv)
    options = options_from(arguments)
    if options.pictures is None:
        options = replace(options, pictures=arguments.results.parent / "pictures")
    records = []
    for name in arguments.only or experiment_names():
        title, run = load_experiment(name)
        records.append(measure(name, title, run, options))
        print(records[-1].as_text() + "\n", flush=True)
        before = arguments.results.read_text(encoding="utf-8") if arguments.results.exists() else ""
        # After each one: an interrupted run keeps what is done.
        arguments.results.write_text(merge_sections(before, records[-1:]), encoding="utf-8")
    missed = [record.name for record in records if not record.outcome.is_met]
    print(f"targets missed in: {', '.join(missed)}" if missed else "all targets met")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
