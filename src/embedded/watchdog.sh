# Cleans up after a process that can no longer do so. Standard input is a pipe from that process, so that end of file
# means it is gone, however it went. Until then each line is what to do if that happens: a signal and whom to send it (a
# process, or minus a process group; empty: nobody), or "done": nothing is left to do.
#
# Arguments: the server's pid file, the directory to remove.
pid_file=$1 directory=$2

# What stops the owner must not stop us.
trap '' HUP INT TERM

charge=
while read -r line; do
    [ "$line" = done ] && exit
    charge=$line
done
signal=${charge% *} target=${charge#* }

if [ -n "$charge" ] && kill -s "$signal" -- "$target"; then
    # 60 seconds, but only 6 without a pid file: a dead process that nobody reaps looks alive for ever.
    tries=600
    while [ $tries -gt 0 ] && kill -s 0 -- "$target"; do
        sleep 0.1
        if [ -e "$pid_file" ]; then tries=$((tries - 1)); else tries=$((tries - 10)); fi
    done
fi

# Somebody may still be writing there.
tries=10
until rm -rf "$directory" || [ $tries -eq 0 ]; do
    sleep 1
    tries=$((tries - 1))
done
