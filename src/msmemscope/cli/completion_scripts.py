"""Completion scripts for shells. They hold all words, so that nothing is started while somebody types.

A package for this would want an argparse parser of the whole command line. Ours ends where the program begins. The rest
is completed as that program's own command line.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from msmemscope.cli.typed_words import TypedOption, TypedVerb

_BASH: Final = """\
# Completion of msmemscope for bash, made by: msmemscope completion bash

# The options behind a verb; behind an empty word those of a run. Options with a value end in =.
__msmemscope_options() {
    case $1 in
@OPTIONS@
    esac
}

# Words that can follow a verb or an option.
__msmemscope_values() {
    case $1 in
@VALUES@
    esac
}

__msmemscope_takes_value() {
    [[ " $(__msmemscope_options "$1") @SHORT@ " == *" $2= "* ]]
}

_msmemscope() {
    # Bash parts words at = and :, so they are taken from the line itself.
    local line current verb="" index
    read -ra line <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && line+=("")
    current=${line[-1]}
    COMPREPLY=()
    for ((index = 1; index < ${#line[@]} - 1; ++index)); do
        if ((index == 1)) && [[ " @VERBS@ " == *" ${line[1]} "* ]]; then
            verb=${line[1]}
            break
        fi
        case ${line[index]} in
            --) ((++index)); break ;;
            -*=*) ;;
            -?*) __msmemscope_takes_value "" "${line[index]}" && ((++index)) ;;
            *) break ;;
        esac
    done
    if [[ -z $verb ]] && ((index < ${#line[@]} - 1)); then
        # Behind the program: as if it had been typed without us.
        if declare -F _command_offset >/dev/null; then
            local word
            for word in "${!COMP_WORDS[@]}"; do
                [[ $word -ge $index && ${COMP_WORDS[word]} == "${line[index]}" ]] && break
            done
            _command_offset "$word"
        fi
        return
    fi
    local option="" value=$current
    case $current in
        -*=*) option=${current%%=*} value=${current#*=} ;;
        -*)
            COMPREPLY=($(compgen -W "$(__msmemscope_options "$verb")" -- "$current"))
            [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
            return
            ;;
        *) __msmemscope_takes_value "$verb" "${line[-2]}" && option=${line[-2]} ;;
    esac
    if [[ -z $option && -z $verb ]]; then
        COMPREPLY=($(compgen -W "@VERBS@" -- "$current"))
        [[ -n $current ]] && COMPREPLY+=($(compgen -c -- "$current"))
        return
    fi
    local before=""
    [[ $value == *,* ]] && before=${value%,*},
    COMPREPLY=($(compgen -P "$before" -W "$(__msmemscope_values "$verb $option")" -- "${value##*,}"))
}

complete -o bashdefault -o default -F _msmemscope msmemscope
"""

_ZSH: Final = """\
#compdef msmemscope
# Completion of msmemscope for zsh, made by: msmemscope completion zsh

__msmemscope_first() {
    local -a verbs=(
@VERBS@
    )
    _describe -t verbs verb verbs
    _command_names -e
    _files
}

__msmemscope_rest() {
    case $words[1] in
@CASES@
        *) _normal ;;
    esac
}

_msmemscope() {
    _arguments -S \\
@OPTIONS@
        '1: :__msmemscope_first' \\
        '*:: :__msmemscope_rest'
}

compdef _msmemscope msmemscope
"""

_FISH: Final = """\
# Completion of msmemscope for fish, made by: msmemscope completion fish

# The first word that is no option, if it was typed.
function __msmemscope_first
    set -l skips no
    for word in (commandline -opc)[2..]
        if test $skips = yes
            set skips no
        else if contains -- $word @WITH_VALUES@
            set skips yes
        else if not string match -q -- '-*' $word
            echo $word
            return
        end
    end
end

function __msmemscope_is
    test "$argv[1]" = (__msmemscope_first; or true)"" 2>/dev/null
end

function __msmemscope_begins
    test -z (__msmemscope_first)""
end

function __msmemscope_has_program
    set -l first (__msmemscope_first)
    test -n "$first"; and not contains -- $first @VERBS@
end

complete -c msmemscope -n __msmemscope_has_program -xa '(__fish_complete_subcommand @WITH_VALUES@)'
complete -c msmemscope -n __msmemscope_begins -xa '(__fish_complete_command)'
@LINES@
"""


def _bash(options: Sequence[TypedOption], verbs: Sequence[TypedVerb]) -> str:
    of_options = [_bash_case("", _bash_options(options))]
    of_values = [_bash_case(f" {name}", one.values) for one in options if one.values for name in one.spellings]
    for verb in verbs:
        of_options.append(_bash_case(verb.name, _bash_options(verb.options)))
        of_values.append(_bash_case(f"{verb.name} ", [word for word, _ in verb.kinds]))
        of_values += [
            _bash_case(f"{verb.name} {name}", one.values)
            for one in verb.options
            if one.values
            for name in one.spellings
        ]
    return _filled(
        _BASH,
        OPTIONS="\n".join(of_options),
        VALUES="\n".join(line for line in of_values if line),
        VERBS=" ".join(verb.name for verb in verbs),
        SHORT=" ".join(sorted({f"{name}=" for name in _short_with_values(options, verbs)})),
    )


def _short_with_values(options: Sequence[TypedOption], verbs: Sequence[TypedVerb]) -> Iterator[str]:
    for one in (*options, *(option for verb in verbs for option in verb.options)):
        if one.metavar:
            yield from (name for name in one.spellings if not _is_long(name))


def _bash_options(options: Sequence[TypedOption]) -> list[str]:
    return [f"{name}=" if one.metavar and _is_long(name) else name for one in options for name in one.spellings]


def _bash_case(word: str, words: Sequence[str]) -> str:
    return f"        '{word}') echo {shlex.quote(' '.join(words))} ;;" if words else ""


def _zsh(options: Sequence[TypedOption], verbs: Sequence[TypedVerb]) -> str:
    cases = []
    for verb in verbs:
        kinds = f" '1:kind:({' '.join(word for word, _ in verb.kinds)})'" if verb.kinds else ""
        of_verb = " ".join(line for one in verb.options for line in _zsh_option(one))
        cases.append(f"        {verb.name}) _arguments -S {of_verb}{kinds} '*:file:_files' ;;")
    return _filled(
        _ZSH,
        VERBS="\n".join(f"        {shlex.quote(f'{verb.name}:{verb.summary}')}" for verb in verbs),
        CASES="\n".join(cases),
        OPTIONS="\n".join(f"        {line} \\" for one in options for line in _zsh_option(one)),
    )


def _zsh_option(option: TypedOption) -> list[str]:
    summary = option.summary.replace("\\", "").replace("[", "(").replace("]", ")").replace(":", " -")
    value = ""
    if option.metavar:
        words = " ".join(option.values)
        if option.values and option.is_list:
            how = f"_values -s , {option.metavar} {words}"
        elif option.values:
            how = f"({words})"
        else:
            how = "_files" if option.takes_file else " "
        value = f":{option.metavar.replace(':', '-')}:{how}"
    # With the value in the same word, or in the next.
    return [shlex.quote(f"{name}{'=' * bool(value and _is_long(name))}[{summary}]{value}") for name in option.spellings]


def _fish(options: Sequence[TypedOption], verbs: Sequence[TypedVerb]) -> str:
    lines = [_fish_option("__msmemscope_begins", one) for one in options]
    for verb in verbs:
        lines.append(f"complete -c msmemscope -n __msmemscope_begins -xa {verb.name} -d {shlex.quote(verb.summary)}")
        condition = f"__msmemscope_is {verb.name}"
        lines += [
            f"complete -c msmemscope -n {shlex.quote(condition)} -xa {word} -d {shlex.quote(summary)}"
            for word, summary in verb.kinds
        ]
        lines += [_fish_option(condition, one) for one in verb.options]
    return _filled(
        _FISH,
        # Short ones first: fish would take long ones for options of its own.
        WITH_VALUES=" ".join(sorted((name for one in options if one.metavar for name in one.spellings), key=_is_long)),
        VERBS=" ".join(verb.name for verb in verbs),
        LINES="\n".join(lines),
    )


def _fish_option(condition: str, option: TypedOption) -> str:
    names = " ".join(f"-l {name[2:]}" if _is_long(name) else f"-s {name[1:]}" for name in option.spellings)
    value = ""
    if option.values and option.is_list:
        value = f" -xa '(__fish_append , {' '.join(option.values)})'"
    elif option.values:
        value = f" -xa '{' '.join(option.values)}'"
    elif option.metavar:
        value = " -r" if option.takes_file else " -x"
    summary = option.summary.partition(". ")[0]
    return f"complete -c msmemscope -n {shlex.quote(condition)} {names}{value} -d {shlex.quote(summary)}"


def _is_long(spelling: str) -> bool:
    return spelling.startswith("--")


def _filled(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template


SCRIPTS: Final[Mapping[str, Callable[[Sequence[TypedOption], Sequence[TypedVerb]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""From shells to what makes their scripts."""
