# Line tools for a text: count, sort, uniq, head, tail, number.
#
# Reads {"text", "op", "n"?} from stdin, writes one JSON object. Only bash builtins are used: no
# command, pipe, substitution or subshell, so that nothing is ever forked. Works on bytes (LC_ALL=C):
# UTF-8 passes through unchanged, and sorting by bytes is sorting by code point.

LC_ALL=C
set -f

LF=$'\n' CR=$'\r' TAB=$'\t' BACKSLASH='\' QUOTE='"'
SPACES=$' \t\n\r'

# --- errors -----------------------------------------------------------------------------------

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

bad_json() {
    fail "input: is not one JSON object: $1 at byte $((${#INPUT} - ${#REST}))"
}

# --- reading JSON: REST is what is still to be read --------------------------------------------

skip_spaces() {
    while [[ -n $REST && $SPACES == *"${REST:0:1}"* ]]; do
        REST=${REST:1}
    done
}

# Sets BYTES to the UTF-8 bytes of the code point $1.
encode_utf8() {
    local code=$1 octal
    if ((code < 0x80)); then
        printf -v octal '\\%03o' "$code"
    elif ((code < 0x800)); then
        printf -v octal '\\%03o' $((0xC0 | code >> 6)) $((0x80 | code & 0x3F))
    elif ((code < 0x10000)); then
        printf -v octal '\\%03o' $((0xE0 | code >> 12)) $((0x80 | code >> 6 & 0x3F)) $((0x80 | code & 0x3F))
    else
        printf -v octal '\\%03o' $((0xF0 | code >> 18)) $((0x80 | code >> 12 & 0x3F)) \
            $((0x80 | code >> 6 & 0x3F)) $((0x80 | code & 0x3F))
    fi
    printf -v BYTES "$octal"
}

# Sets CODE to the value of the four hexadecimal digits at the start of REST.
read_hex() {
    [[ ${REST:0:4} =~ ^[0-9A-Fa-f]{4}$ ]] || bad_json 'bad \u escape'
    CODE=$((16#${REST:0:4}))
    REST=${REST:4}
}

# Sets BYTES for a \u escape (REST begins after the u), pairs of surrogates included.
read_unicode() {
    local high
    read_hex
    ((CODE != 0)) || fail 'text: holds the character U+0000; remove it'
    if ((CODE >= 0xD800 && CODE <= 0xDBFF)); then
        high=$CODE
        [[ ${REST:0:2} == '\u' ]] || bad_json 'half of a surrogate pair'
        REST=${REST:2}
        read_hex
        ((CODE >= 0xDC00 && CODE <= 0xDFFF)) || bad_json 'half of a surrogate pair'
        CODE=$((0x10000 + ((high - 0xD800) << 10) + CODE - 0xDC00))
    elif ((CODE >= 0xDC00 && CODE <= 0xDFFF)); then
        bad_json 'half of a surrogate pair'
    fi
    encode_utf8 "$CODE"
}

# Sets STRING to the JSON string at the start of REST.
read_string() {
    local chunk escape
    [[ ${REST:0:1} == "$QUOTE" ]] || bad_json 'expected a string'
    REST=${REST:1}
    STRING=
    while :; do
        chunk=${REST%%["$QUOTE$BACKSLASH"]*}
        [[ $chunk != "$REST" ]] || bad_json 'string without an end'
        [[ $chunk != *[$'\x01'-$'\x1f']* ]] || bad_json 'raw control character in the string'
        STRING+=$chunk
        REST=${REST:${#chunk}}
        if [[ ${REST:0:1} == "$QUOTE" ]]; then
            REST=${REST:1}
            return
        fi
        escape=${REST:1:1}
        REST=${REST:2}
        case $escape in
            n) STRING+=$LF ;;
            t) STRING+=$TAB ;;
            r) STRING+=$CR ;;
            b) STRING+=$'\b' ;;
            f) STRING+=$'\f' ;;
            "$QUOTE" | "$BACKSLASH" | /) STRING+=$escape ;;
            u)
                read_unicode
                STRING+=$BYTES
                ;;
            *) bad_json 'unknown escape' ;;
        esac
    done
}

# Sets N to the whole number at the start of REST.
read_number() {
    [[ $REST =~ ^(-?(0|[1-9][0-9]*))(\.0+)?[],}[:space:]] ]] || fail 'n: must be a whole number, such as 10'
    N=${BASH_REMATCH[1]}
    REST=${REST:${#N}+${#BASH_REMATCH[3]}}
    ((${#N} <= 6)) || fail 'n: must lie between 0 and 100000'
}

read_member() {
    local key
    read_string
    key=$STRING
    skip_spaces
    [[ ${REST:0:1} == : ]] || bad_json 'expected a colon'
    REST=${REST:1}
    skip_spaces
    case $key in
        text)
            [[ -z ${TEXT+set} ]] || fail 'text: is given twice'
            read_string
            TEXT=$STRING
            ;;
        op)
            [[ -z ${OP+set} ]] || fail 'op: is given twice'
            read_string
            OP=$STRING
            ;;
        n)
            [[ -z ${N+set} ]] || fail 'n: is given twice'
            read_number
            ;;
        *) fail 'input: only the fields "text", "op" and "n" are known' ;;
    esac
    skip_spaces
}

# Sets TEXT, OP and N from the object in REST.
read_object() {
    skip_spaces
    [[ ${REST:0:1} == '{' ]] || bad_json 'expected {'
    REST=${REST:1}
    skip_spaces
    while [[ ${REST:0:1} != '}' ]]; do
        read_member
        case ${REST:0:1} in
            ,)
                REST=${REST:1}
                skip_spaces
                [[ ${REST:0:1} == "$QUOTE" ]] || bad_json 'expected a field after the comma'
                ;;
            '}') ;;
            *) bad_json 'expected a comma or }' ;;
        esac
    done
    REST=${REST:1}
    skip_spaces
    [[ -z $REST ]] || bad_json 'something after the object'
}

# --- writing JSON -----------------------------------------------------------------------------

# Sets JSON to the JSON string for $1.
quote() {
    local text=$1 code char escape
    text=${text//"$BACKSLASH"/"$BACKSLASH$BACKSLASH"}
    text=${text//"$QUOTE"/"$BACKSLASH$QUOTE"}
    if [[ $text == *[$'\x01'-$'\x1f']* ]]; then
        for ((code = 1; code < 32; code++)); do
            printf -v char '\\%03o' "$code"
            printf -v char "$char"
            printf -v escape '\\u%04x' "$code"
            text=${text//"$char"/"$escape"}
        done
        text=${text//"\\u0009"/"\\t"}
    fi
    JSON="\"$text\""
}

# Writes the answer whose lines are in LINES (and COUNTS, for uniq).
write_lines() {
    local line joined='' counts=''
    for line in "${LINES_OUT[@]}"; do
        quote "$line"
        joined+=", $JSON"
    done
    for line in "${COUNTS[@]}"; do
        counts+=", $line"
    done
    quote "$OP"
    printf '{"op": %s, "lines_in": %d, "lines_out": %d, "lines": [%s]' "$JSON" "${#LINES_IN[@]}" "${#LINES_OUT[@]}" "${joined:2}"
    [[ $OP != uniq ]] || printf ', "counts": [%s]' "${counts:2}"
    printf '}\n'
}

# --- the operations: from LINES_IN to LINES_OUT ------------------------------------------------

# A last line without a line end counts; CR LF is one line end.
split_lines() {
    local rest=$TEXT line
    LINES_IN=()
    while [[ $rest == *"$LF"* ]]; do
        line=${rest%%"$LF"*}
        rest=${rest#*"$LF"}
        LINES_IN+=("${line%"$CR"}")
    done
    [[ -z $rest ]] || LINES_IN+=("${rest%"$CR"}")
}

count_all() {
    local IFS=$SPACES$'\f\v' line blank=0 words leads
    words=($TEXT)
    leads=${TEXT//[$'\x80'-$'\xbf']/}
    for line in "${LINES_IN[@]}"; do
        [[ -n ${line//[ "$TAB$CR"]/} ]] || blank=$((blank + 1))
    done
    printf '{"op": "count", "lines_in": %d, "blank_lines": %d, "words": %d, "characters": %d, "bytes": %d}\n' \
        "${#LINES_IN[@]}" "$blank" "${#words[@]}" "${#leads}" "${#TEXT}"
}

# Merges the runs [from, middle) and [middle, to) of LINES_OUT into MERGED.
merge() {
    local left=$1 middle=$2 right=$2 to=$3
    while ((left < middle && right < to)); do
        if [[ ${LINES_OUT[right]} < ${LINES_OUT[left]} ]]; then
            MERGED+=("${LINES_OUT[right]}")
            right=$((right + 1))
        else
            MERGED+=("${LINES_OUT[left]}")
            left=$((left + 1))
        fi
    done
    MERGED+=("${LINES_OUT[@]:left:middle-left}" "${LINES_OUT[@]:right:to-right}")
}

sort_lines() {
    local size total=${#LINES_IN[@]} from middle to
    LINES_OUT=("${LINES_IN[@]}")
    for ((size = 1; size < total; size *= 2)); do
        MERGED=()
        for ((from = 0; from < total; from += 2 * size)); do
            middle=$((from + size < total ? from + size : total))
            to=$((from + 2 * size < total ? from + 2 * size : total))
            merge "$from" "$middle" "$to"
        done
        LINES_OUT=("${MERGED[@]}")
    done
}

# Distinct lines in the order of their first appearance, and how often each occurs.
uniq_lines() {
    local line place
    local -A places=()
    for line in "${LINES_IN[@]}"; do
        place=${places["x$line"]-}
        if [[ -z $place ]]; then
            place=${#LINES_OUT[@]}
            places["x$line"]=$place
            LINES_OUT+=("$line")
            COUNTS+=(0)
        fi
        COUNTS[place]=$((COUNTS[place] + 1))
    done
}

number_lines() {
    local line number=$N
    for line in "${LINES_IN[@]}"; do
        LINES_OUT+=("$number$TAB$line")
        number=$((number + 1))
    done
}

tail_lines() {
    local total=${#LINES_IN[@]}
    local from=$((N < total ? total - N : 0))
    LINES_OUT=("${LINES_IN[@]:from}")
}

# --- main -------------------------------------------------------------------------------------

unset TEXT OP N
IFS= read -r -d '' INPUT && fail 'input: holds a NUL byte; remove it'
REST=$INPUT
read_object
[[ -n ${TEXT+set} ]] || fail 'text: is missing'
[[ -n ${OP+set} ]] || fail 'op: is missing'
if [[ -z ${N+set} ]]; then
    N=10
    [[ $OP != number ]] || N=1
fi
((N >= 0)) || fail 'n: must lie between 0 and 100000'

split_lines
LINES_OUT=()
COUNTS=()
case $OP in
    count) count_all ;;
    sort) sort_lines ;;
    uniq) uniq_lines ;;
    head) LINES_OUT=("${LINES_IN[@]:0:N}") ;;
    tail) tail_lines ;;
    number) number_lines ;;
    *) fail 'op: must be one of count, sort, uniq, head, tail, number' ;;
esac
[[ $OP == count ]] || write_lines
exit 0
