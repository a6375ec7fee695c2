#!/bin/bash
# check_exports.sh LIBRARY HEADER: the library shows the functions of the
# header, and nothing else; its soname is libplait.so.<major>.
set -euo pipefail
library=${1:?library} header=${2:?header}

shown=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
declared=$(sed -n '/^PLAIT_API/,/;/p' "$header" | grep -o 'plait_[a-z0-9_]*(' | tr -d '(' | sort -u)

strange=$(comm -23 <(echo "$shown") <(echo "$declared"))
missing=$(comm -13 <(echo "$shown") <(echo "$declared"))
[ -z "$strange" ] || { echo "shown but not in $header:" $strange; exit 1; }
[ -z "$missing" ] || { echo "in $header but not defined:" $missing; exit 1; }

major=$(sed -n 's/^#define PLAIT_VERSION_MAJOR //p' "$header")
readelf -d "$library" | grep -q "SONAME.*\[libplait\.so\.$major\]" || { echo "no soname libplait.so.$major"; exit 1; }

# Nothing beyond the C library and libsodium is needed to load it.
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for name in $needed; do
    case $name in
    libc.so.* | libm.so.* | libpthread.so.* | librt.so.* | libdl.so.* | ld-linux*) ;;
    libsodium.so.* | libasan.so.* | libubsan.so.* | libtsan.so.*) ;;
    *) echo "needs $name to load"; exit 1 ;;
    esac
done
echo "$(echo "$shown" | wc -l) functions shown; needs" $needed
