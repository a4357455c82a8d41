# shellcheck shell=bash
# options.sh: what scripts that measure share: options, the text, failing. Sourced; sets root and build.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_FOLDER:-$root/build}

fail() {
    printf "$(basename "$0" .sh): %s\n" "$@" >&2
    exit 1
}

# parse_options "NAME..." ARGUMENT...: --NAME VALUE sets the variable NAME; of NAME+, which may be given several times, the array
# NAMEs. --save sets save=yes, --help prints the script's head.
parse_options() {
    local names=" $1 " name
    shift
    while (($# > 0)); do
        name=${1#--}
        case $1 in
        --save) save=yes ;;
        -h | --help)
            sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"
            exit 0
            ;;
        --*)
            [[ $names == *" $name "* || $names == *" $name+ "* ]] || fail "unknown option $1; --help lists them"
            (($# > 1)) || fail "$1 needs a value"
            if [[ $names == *" $name "* ]]; then printf -v "$name" '%s' "$2"; else eval "${name}s+=(\"\$2\")"; fi
            shift
            ;;
        *) fail "unknown option $1; --help lists them" ;;
        esac
        shift
    done
}

# need PROGRAM...: they are built, and $data is a text.
need() {
    local program
    for program in "$@"; do
        [[ -x $build/bin/$program ]] || fail "no $program in $build/bin" 'bash tests/run.sh builds everything'
    done
    [[ -r $data ]] || fail "no text $data" 'make the default one by: bash model/quickstart.sh --steps 0'
}

# shorten FOLDER: $data becomes a part of itself, which will do: what ebb-train evaluates at the end, unmeasured, is less.
shorten() {
    head -c 400000 "$data" >"$1/text"
    data=$1/text
}

# with_and_without NAME ARGUMENT...: the options of a script that compares a program with and without libebb.so, turn by turn, handed
# over as EBB_BUILD, EBB_TURNS, EBB_SAVE and EBB_COMMAND; the folder becomes root.
with_and_without() {
    local name=$1
    shift
    turns=5 save=''
    parse_options 'build turns' "$@"
    EBB_BUILD=$(cd "$build" && pwd)
    export EBB_BUILD EBB_TURNS=$turns EBB_SAVE=${save:+bench/results/$name.json} EBB_COMMAND="bash bench/$name.sh $*"
    cd "$root" || exit
}
