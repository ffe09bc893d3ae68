"""Whether a process is observed, where some ranks were chosen: `--ranks` and `--sample-ranks`.

Imported before the package itself, so that a process that is left out does not load it. `native/core/writer/rank_choice.cpp`
decides the same for the native core; `tests/contracts/test_rank_choice.py` compares the two.
"""

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Of torchrun and Ray, Open MPI, other MPIs and Slurm, in the order in which they are believed."""

_MOST_DIGITS = 9
_GOLDEN = 2654435769
"""2^32 divided by the golden ratio: multiples of it, modulo 2^32, are spread evenly, also those of every second or eighth."""


def is_left_out(settings, environment):
    """Whether a process runs unobserved. One without a rank in its environment is observed.

    Args:
        settings: Lines of the settings text: `ranks` (`0,7,8-15`) and `sample_ranks` (`1/16`), both empty for all ranks.
            Where both are given, a rank is chosen if either has it.
        environment: Variables.
    """
    ranks, sample = settings.get("ranks", ""), settings.get("sample_ranks", "")
    if not ranks and not sample:
        return False
    texts = (environment.get(name, "") for name in RANK_VARIABLES)
    rank = next((int(text) for text in texts if _is_number(text)), None)
    return rank is not None and not (_lists(ranks, rank) or _samples(sample, rank))


def _is_number(text):
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _lists(ranks, rank):
    for part in filter(None, ranks.split(",")):
        first, _, last = part.partition("-")
        if int(first) <= rank <= int(last or first):
            return True
    return False


def _samples(sample, rank):
    """Decided by the rank alone, so that jobs of every size choose the same: of 1/N, rank 0 and on average every N-th."""
    count, _, of = sample.partition("/")
    return bool(of) and (rank * _GOLDEN & 0xFFFFFFFF) * int(of) < int(count) << 32
