"""Run the experiments and write their results to ``experiments/RESULTS.md``.

``python -m experiments`` runs all of them in full; ``--only NAME ...`` some, whose sections are replaced while
the others stay. With ``--seed`` other than 0 the targets go to a section beside that of seed 0, and no pictures
are drawn unless asked for. Sections older than the code they use are named; ``--stale`` does nothing else.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments._common import Options, Record, add_arguments, load_experiment, measure, options_from
from experiments._origin import code_of, stated_code

HERE = Path(__file__).parent
_HEAD = (
    "# Results\n\nWritten by `python -m experiments`: our figures beside the published ones, and the targets "
    "that decide the exit status.\n"
)
#: What follows it in a section was written by hand, as the reason of a missed target: it stays in later runs.
_REMARKS = "<!-- remarks -->"


def experiment_names() -> list[str]:
    """All experiments, by name."""
    return sorted(info.name for info in pkgutil.iter_modules([str(HERE)]) if not info.name.startswith("_"))


def read_sections(text: str) -> dict[str, str]:
    """Sections of a results file by their headings."""
    parts = ("\n" + text).split("\n## ")[1:]
    return {part.split("\n", 1)[0].strip(): "## " + part.rstrip() + "\n" for part in parts}


def stale_sections(text: str) -> list[str]:
    """Headings of the sections whose experiment now uses other code, or that do not say which they used."""
    stated = {head: stated_code(part) for head, part in read_sections(text).items()}
    return [head for head, code in stated.items() if not code or code != code_of(head.split(",")[0])]


def warn_of_stale(results: Path) -> bool:
    """Name the stale sections of a results file; whether there are any."""
    stale = stale_sections(results.read_text(encoding="utf-8")) if results.exists() else []
    if stale:
        print(f"warning: older than the code they use: {'; '.join(stale)}", file=sys.stderr)
    return bool(stale)


def merge_sections(text: str, records: Sequence[Record]) -> str:
    """``text`` of a results file with the sections of ``records`` put in, sections by name; remarks stay.

    Parameters
    ----------
    text : str
        The file so far, possibly empty.
    records : sequence of Record

    Returns
    -------
    str
    """
    sections = read_sections(text)
    for record in records:
        _, marker, remarks = sections.get(record.section, "").partition(_REMARKS)
        sections[record.section] = record.as_markdown() + (f"\n{marker}{remarks}" if marker else "")
    return "\n".join([_HEAD, *(sections[name] for name in sorted(sections))])


def run_one(name: str, options: Options, results: Path) -> Record:
    """Run an experiment, print what it found and put its section into the results."""
    title, run = load_experiment(name)
    record = measure(name, title, run, options)
    print(record.as_text() + "\n", flush=True)
    before = results.read_text(encoding="utf-8") if results.exists() else ""
    results.write_text(merge_sections(before, [record]), encoding="utf-8")
    if _REMARKS in read_sections(before).get(record.section, ""):
        print(f"{record.section}: remarks were kept; see whether they are still true\n", flush=True)
    return record


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen experiments; 1 when a target is missed."""
    arguments = _parser().parse_args(argv)
    # Before the run: a full one takes hours, and who starts it may want some of it only.
    is_stale = warn_of_stale(arguments.results)
    if arguments.stale:
        return int(is_stale)
    options = options_from(arguments)
    if options.pictures is None and not options.seed:
        options = replace(options, pictures=arguments.results.parent / "pictures")
    records = [run_one(name, options, arguments.results) for name in arguments.only or experiment_names()]
    missed = [record.name for record in records if not record.outcome.is_met]
    print(f"targets missed in: {', '.join(missed)}" if missed else "all targets met")
    return int(bool(missed))


def _parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--stale", action="store_true", help="run nothing, name the stale sections; 1 if any")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
