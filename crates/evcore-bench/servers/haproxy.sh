# HAProxy with one thread. MODE has the lines that differ from server to server.
cat >"$FOLDER/$NAME.conf" <<END
global
    nbthread 1
    maxconn 4000
defaults
    $MODE
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen proxy
    bind $ADDRESS backlog 1024
    server upstream $UPSTREAM
END
exec haproxy -f "$FOLDER/$NAME.conf"
