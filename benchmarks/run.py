"""`make bench`: measure the tool against its peers, print a table, and keep the figures as JSON."""

from __future__ import annotations

import argparse
import json
import platform
from datetime import datetime, timezone
from pathlib import Path

from measurements import MEASUREMENTS
from measuring import Measurement, Outcome, measure, table

RESULTS = Path(__file__).parent / "results"


def chosen_measurements(words: list[str]) -> list[Measurement]:
    """The measurements whose names contain one of the words; all if there is no word."""
    everything = [make() for make in MEASUREMENTS]
    return [one for one in everything if not words or any(word in one.name for word in words)]


def machine() -> dict[str, str | int]:
    """The machine, as far as the figures depend on it."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {"processor": model, "kernel": platform.release(), "python": platform.python_version()}


def main() -> int:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measurement", nargs="*", help="words of the measurements to run; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes of each variant")
    parser.add_argument("--list", action="store_true", help="list the measurements and end")
    arguments = parser.parse_args()
    chosen = chosen_measurements(arguments.measurement)
    if arguments.list or not chosen:
        print("\n".join(one.name for one in chosen_measurements([])))
        return 0 if chosen else 2

    facts = machine()
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    print(f"median of {arguments.repeats}, [least .. most], added to the first variant, ratio to it\n", flush=True)
    outcomes: list[Outcome] = []
    for one in chosen:
        outcomes.append(measure(one, arguments.repeats))
        print(table(outcomes[-1]), end="\n\n", flush=True)

    RESULTS.mkdir(exist_ok=True)
    moment = datetime.now(tz=timezone.utc)
    path = RESULTS / f"{moment:%Y%m%dT%H%M%SZ}.json"
    content = {"machine": facts, "moment": moment.isoformat(), "measurements": [one.as_json() for one in outcomes]}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
