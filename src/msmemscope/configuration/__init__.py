"""The configuration: one frozen `Config`, one table of options, and all validation.

`settings` has the `Config` itself and how it is written as text, `options` the table of
options, `option_values` a parser per option. All of it is imported inside the observed
process: standard library only.
"""

from __future__ import annotations

from msmemscope.configuration.option_values import split_list
from msmemscope.configuration.options import (
    OPTION_BY_KEYWORD,
    OPTION_BY_SPELLING,
    OPTIONS,
    GivenOption,
    Option,
    OptionGroup,
    option_text,
    with_keywords,
    with_options,
)
from msmemscope.configuration.settings import (
    CANN_VARIABLES,
    CUDA_DRIVER_FILES,
    DEFAULT_OOM_TOP,
    NO_SESSION,
    SETTINGS_VARIABLE,
    STACK_SCOPE_FACT,
    Analysis,
    CollectionItem,
    CollectMode,
    Config,
    DataFormat,
    HostSampling,
    Level,
    LogLevel,
    StackScope,
    WatchChecksum,
    cann_directory,
    new_session,
    observable_devices,
)

__all__ = [
    "CANN_VARIABLES",
    "CUDA_DRIVER_FILES",
    "DEFAULT_OOM_TOP",
    "NO_SESSION",
    "OPTIONS",
    "OPTION_BY_KEYWORD",
    "OPTION_BY_SPELLING",
    "SETTINGS_VARIABLE",
    "STACK_SCOPE_FACT",
    "Analysis",
    "CollectMode",
    "CollectionItem",
    "Config",
    "DataFormat",
    "GivenOption",
    "HostSampling",
    "Level",
    "LogLevel",
    "Option",
    "OptionGroup",
    "StackScope",
    "WatchChecksum",
    "cann_directory",
    "new_session",
    "observable_devices",
    "option_text",
    "split_list",
    "with_keywords",
    "with_options",
]
