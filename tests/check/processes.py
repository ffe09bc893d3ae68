"""Tests that start processes, by the folders that they stand for: a few quick ones each, as all of them would be reached.

`make test` runs the others. The longest folder that a file lies in counts.
"""

from __future__ import annotations

from typing import Final

THROUGH_PROCESSES: Final[dict[str, tuple[str, ...]]] = {
    "src/msmemscope/agent/": ("tests/integration/test_mcp_server.py",),
    "src/msmemscope/analysis/": ("tests/integration/test_online_analyses.py",),
    "src/msmemscope/bootstrap/": ("tests/integration/test_import_environments.py",),
    "src/msmemscope/capture/": ("tests/integration/test_steps.py", "tests/integration/test_tracer.py"),
    "src/msmemscope/capture/frameworks/": ("tests/integration/test_framework_hooks.py",),
    "src/msmemscope/cli/": ("tests/integration/test_messages.py",),
    "src/msmemscope/cluster/": ("tests/unit/cluster/test_lost_workers.py",),
    "src/msmemscope/configuration/": ("tests/integration/test_messages.py",),
    "src/msmemscope/formats/": ("tests/integration/test_archives.py", "tests/integration/test_output_folders.py"),
    "src/msmemscope/integrations/": ("tests/integration/test_integrations_pytest.py",),
    "src/msmemscope/launch/": ("tests/integration/test_launcher_output.py", "tests/integration/test_output_folders.py"),
    "src/msmemscope/live/": ("tests/integration/test_live.py",),
    "src/msmemscope/model/": ("tests/integration/test_target_programs.py",),
    "src/msmemscope/recording/": ("tests/integration/test_online_analyses.py",),
    "src/msmemscope/reports/": ("tests/integration/test_report_of_run.py",),
    "src/msmemscope/view/": ("tests/integration/test_view_server.py",),
    "native/": ("tests/integration/test_target_programs.py",),
    "native/bindings/": ("tests/integration/test_python_stacks.py", "tests/integration/test_steps.py"),
    "native/command/": ("tests/unit/cli/test_completion.py", "tests/unit/cli/test_sources.py"),
    "native/interpose/": ("tests/integration/test_loading.py", "tests/integration/test_target_programs.py"),
    "native/offline/alignment/": ("tests/unit/analysis/test_comparison.py", "tests/unit/cli/test_compare.py"),
    "native/offline/block_stack/": ("tests/unit/view/test_queries.py",),
    "native/offline/dump_rows/": (
        "tests/unit/formats/dump/test_usual_rows.py",
        "tests/unit/formats/dump/test_usual_database_rows.py",
    ),
    "native/offline/dump_writing/": ("tests/unit/formats/dump/test_write_dumps.py",),
    "native/offline/plain_pickle/": ("tests/unit/formats/torch_snapshot/test_plain_pickle.py",),
    "native/offline/replay/": ("tests/unit/analysis/test_replay.py", "tests/unit/analysis/test_replay_states.py"),
    "native/preload/": ("tests/integration/test_loading.py", "tests/integration/test_target_programs.py"),
    "native/sources/torch_cpu/": ("tests/integration/test_steps.py",),
    "native/watch/": ("tests/integration/test_watch.py",),
}

ALWAYS: Final[dict[str, tuple[str, ...]]] = {
    "src/msmemscope/reports/": (
        "tests/unit/reports/html/test_chinese.py",
        "tests/unit/reports/html/test_document.py",
        "tests/unit/reports/test_terminal.py",
    ),
}
"""Tests that run for a folder however late it is: they read what all its files say."""

COSTLY_CONTRACTS: Final[dict[str, tuple[str, ...]]] = {
    "tests/contracts/test_site.py::test_the_site_builds": ("docs/", "mkdocs.yml", "README"),
    "tests/contracts/test_page_bundles.py::test_the_pages_are_what_their_sources_make": ("ui/",),
    "tests/contracts/test_page_bundles.py::test_types_and_unit_tests_of_the_pages_hold": ("ui/",),
    "tests/contracts/test_wheel.py::test_a_source_distribution_has_its_own_sources_alone": (
        "pyproject.toml",
        "packaging/",
    ),
    "tests/contracts/test_wheel.py::test_links_of_the_readme_work_on_a_package_index": ("README", "pyproject.toml"),
}
"""Contracts that take long, and the files that are reason enough to check them; the others are checked each time."""
