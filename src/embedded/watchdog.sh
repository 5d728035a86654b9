# Cleans up after a process that can no longer do so. Standard input is a pipe from that process, so that end of file
# means it is gone, however it went. Until then each line is the process to stop if that happens (empty: none), or
# "done": nothing is left to do.
#
# Arguments: the signal that stops the server, the server's pid file, the directory to remove.
signal=$1 pid_file=$2 directory=$3

# What stops the owner must not stop us.
trap '' HUP INT TERM

pid=
while read -r line; do
    [ "$line" = done ] && exit
    pid=$line
done

if [ -n "$pid" ] && kill -s "$signal" "$pid"; then
    # 60 seconds, but only 6 once the pid file is gone: a dead process that nobody reaps looks alive for ever.
    tries=600
    while [ $tries -gt 0 ] && kill -s 0 "$pid"; do
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
