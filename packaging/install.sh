#!/bin/sh
# Installs Longhand for the user who runs it, without root: the program, its manual, documents and completions.
#
#   sh install.sh [--from URL|FOLDER] [--prefix FOLDER]
#
# --from is where a release lies; default: the folder of this script. --prefix is where it goes; default: ~/.local.
# Nothing is written before the package's checksum is right and its program runs here; what it did, and how to undo it,
# stands at the end. Started again, it replaces what it put there before.
set -eu
umask 022

refuse() {
    printf 'install.sh: %s\nNothing was installed.\n' "$1" >&2
    exit 1
}

from=''
prefix="${HOME:?}/.local"
while [ $# -gt 0 ]; do
    case "$1" in
        --from | --prefix) [ $# -gt 1 ] || refuse "$1 needs a value" ;;
        *) refuse "unknown argument $1: sh install.sh [--from URL|FOLDER] [--prefix FOLDER]" ;;
    esac
    case "$1" in
        --from) from="${2%/}" ;;
        --prefix) prefix="${2%/}" ;;
    esac
    shift 2
done
# A script that comes through a pipe lies in no folder.
own="$(cd "$(dirname "$0")" && pwd)"
if [ -z "$from" ] && [ "$(basename "$0")" = install.sh ] && [ -f "$own/SHA256SUMS" ]; then
    from="$own"
fi
[ -n "$from" ] || refuse 'no release lies beside this script: --from URL or --from FOLDER says where one does'

case "$(uname -s) $(uname -m)" in
    'Linux x86_64') target=x86_64-unknown-linux-gnu ;;
    'Linux aarch64') target=aarch64-unknown-linux-gnu ;;
    'Darwin arm64') target=aarch64-apple-darwin ;;
    'Darwin x86_64') target=x86_64-apple-darwin ;;
    *) refuse "there is no package for $(uname -s) on $(uname -m)" ;;
esac

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
get() {
    case "$from" in
        # Over the loopback interface nobody can change what comes.
        https://* | http://127.0.0.1:* | http://localhost:*)
            if command -v curl >/dev/null; then
                curl --fail --silent --show-error --location --proto-redir =https --output "$work/$1" "$from/$1"
            elif command -v wget >/dev/null; then
                wget --quiet --output-document="$work/$1" "$from/$1"
            else
                refuse 'neither curl nor wget is there'
            fi || refuse "$from/$1 cannot be fetched"
            ;;
        *://*) refuse "$from: a URL begins with https://" ;;
        *) cp "$from/$1" "$work/$1" || refuse "$from/$1 cannot be read" ;;
    esac
}
get SHA256SUMS
name="$(sed -n "s/^[0-9a-f]\{64\}  \(longhand-[0-9A-Za-z.+-]*-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")"
[ -n "$name" ] || refuse "$from has no package for $target"
[ "$(printf '%s\n' "$name" | wc -l)" -eq 1 ] || refuse "$from has more than one package for $target"
get "$name"
grep -F "  $name" "$work/SHA256SUMS" >"$work/sum"
if command -v sha256sum >/dev/null; then
    (cd "$work" && sha256sum -c sum >/dev/null 2>&1)
elif command -v shasum >/dev/null; then
    (cd "$work" && shasum -a 256 -c sum >/dev/null 2>&1)
else
    refuse 'neither sha256sum nor shasum is there, so that nobody can check the package'
fi || refuse "$name is not what its checksum says"
(cd "$work" && gzip -dc "$name" | tar -xf -) || refuse "$name cannot be unpacked"
tree="$work/${name%.tar.gz}"
version="$("$tree/bin/longhand" --version 2>"$work/error")" \
    || refuse "its program does not run here: $(head -n 1 "$work/error")"

undo="$prefix/share/doc/longhand/uninstall.sh"
if [ -e "$undo" ]; then
    sh "$undo" >/dev/null
elif [ -e "$prefix/bin/longhand" ]; then
    refuse "$prefix/bin/longhand is there, and not by this script: remove it, or name another --prefix"
fi
# Not what is for a system: the user service, and the protos, whose folder would be the one with a user's store.
(cd "$tree" && find bin share/man share/bash-completion share/zsh share/fish share/doc -type f) >"$work/files"
quoted() {
    printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}
# Prints, outermost last, the folders on the way to a file that are not there yet.
missing() {
    folder="$(dirname "$1")"
    while [ ! -d "$folder" ]; do
        printf '%s\n' "$folder"
        folder="$(dirname "$folder")"
    done
}
while read -r file; do missing "$prefix/$file"; done <"$work/files" | sort -ru >"$work/folders"
{
    printf '#!/bin/sh\n# Removes what install.sh put there. Sessions stay: their folder is ~/.local/share/longhand.\n'
    while read -r file; do printf 'rm -f %s\n' "$(quoted "$prefix/$file")"; done <"$work/files"
    printf 'rm -f %s\n' "$(quoted "$undo")"
    # A folder that has something else by now stays.
    while read -r folder; do printf 'rmdir %s 2>/dev/null\n' "$(quoted "$folder")"; done <"$work/folders"
    printf 'exit 0\n'
} >"$work/undo"
# Before all others, so that what an interruption leaves can be removed, and installed over.
mkdir -p "$(dirname "$undo")"
cp "$work/undo" "$undo"
while read -r file; do
    mkdir -p "$(dirname "$prefix/$file")"
    # A program that runs cannot be written, but replaced.
    rm -f "$prefix/$file"
    cp "$tree/$file" "$prefix/$file"
done <"$work/files"

printf 'Installed %s in %s: bin/longhand, and its manual, documents and completions in share.\n' "$version" "$prefix"
case ":$PATH:" in
    *":$prefix/bin:"*) printf 'Begin with: longhand demo\n' ;;
    *) printf 'Begin with: %s demo; %s is not in PATH.\n' "$prefix/bin/longhand" "$prefix/bin" ;;
esac
case "$undo" in
    *[!A-Za-z0-9/._-]*) undo="$(quoted "$undo")" ;;
esac
printf 'Undo it with: sh %s\n' "$undo"
