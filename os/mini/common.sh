# Shared by the scripts of the OS "mini".  All input comes from the environment (ganeti-os-interface(7)).

set -eu

PART_OFFSET=1048576 # the only partition begins at 1 MiB

fail() {
  echo "mini: $*" >&2
  exit 1
}

# Where vmlinuz and initrd.gz are.
guest_files() {
  echo "${OSP_FILES:-/var/lib/ganeti-mini}"
}

check_files() {
  files=$(guest_files)
  case "$files" in
    /*) ;;
    *) fail "parameter files: '$files' is not an absolute path" ;;
  esac
  for name in vmlinuz initrd.gz; do
    [ -r "$files/$name" ] || fail "parameter files: $files/$name is not there; make it with 'mini-guest-files $files', or name the directory that has it by the OS parameter files"
  done
}

# A parameter that is not given is never wrong.
check_parameters() {
  [ -z "${OSP_FILES:-}" ] || check_files
  case "${OSP_CMDLINE:-}" in
    *'
'*) fail "parameter cmdline: must be one line" ;;
  esac
}

need_programs() {
  for program in mformat mcopy syslinux dd; do
    command -v "$program" > /dev/null || fail "$program is missing on this node; install mtools and syslinux"
  done
}

mbr_code() {
  for path in /usr/lib/syslinux/mbr/mbr.bin /usr/lib/SYSLINUX/mbr.bin /usr/share/syslinux/mbr.bin; do
    if [ -r "$path" ]; then
      echo "$path"
      return
    fi
  done
  fail "no boot code for the master boot record; install syslinux-common"
}

the_disk() {
  [ "${DISK_COUNT:-0}" -ge 1 ] || fail "an instance needs at least one disk"
  [ "${DISK_0_ACCESS:-rw}" = rw ] || fail "the first disk must be writable"
  echo "${DISK_0_PATH:?the first disk has no path on this node}"
}

size_of() {
  if [ -b "$1" ]; then
    blockdev --getsize64 "$1"
  else
    stat -L -c %s "$1"
  fi
}

# Writes its arguments, numbers, as four bytes each, lowest first.
le32() {
  for number in "$@"; do
    n=$number
    for _ in 1 2 3 4; do
      # shellcheck disable=SC2059 # the format is the byte
      printf "\\$(printf %03o $((n & 255)))"
      n=$((n >> 8))
    done
  done
}

# A partition table with one bootable FAT partition of $2 sectors on disk $1, and code that boots it.
write_mbr() {
  dd if="$(mbr_code)" of="$1" bs=440 count=1 conv=notrunc status=none
  {
    printf '\200\376\377\377\014\376\377\377'
    le32 $((PART_OFFSET / 512)) "$2"
    dd if=/dev/zero bs=16 count=3 status=none
    printf '\125\252'
  } | dd of="$1" bs=1 seek=446 conv=notrunc status=none
}

# What is booted, and under which name.
write_config() {
  mcopy -o -i "$1@@$PART_OFFSET" - ::syslinux.cfg << EOF
SERIAL 0 115200
DEFAULT mini
PROMPT 0
TIMEOUT 1
LABEL mini
  KERNEL vmlinuz
  INITRD initrd.gz
  APPEND console=ttyS0,115200 quiet panic=5 mini.name=$INSTANCE_NAME ${OSP_CMDLINE:-}
EOF
}
