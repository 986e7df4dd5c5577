#!/bin/sh
# Makes ./configure from a checkout.  Run it again when files were added to the tree.
set -e
cd "$(dirname "$0")"
for program in aclocal automake autoconf python3; do
  command -v "$program" >/dev/null || {
    echo "autogen.sh: $program is missing (Debian: apt-get install autoconf automake python3)" >&2
    exit 1
  }
done
python3 autotools/list-sources sources.am
aclocal
autoconf
automake --add-missing --copy --foreign
