# nginx with one location. The arguments have what differs from server to server: `MODULE=...` (a
# module that Debian has as a file), `EVENTS=...`, `HTTP=...`, `LISTEN=...` and `LOCATION=...`.
MODULE='' EVENTS='' HTTP='' LISTEN='' LOCATION=''
for pair; do eval "${pair%%=*}=\${pair#*=}"; done
master=on
if [ "$WORKERS" = 0 ]; then master=off; fi
if [ "$MODULE" ]; then
    MODULE="load_module $(dirname "$(command -v nginx)")/../lib/nginx/modules/ngx_${MODULE}_module.so;"
fi
cat >"$FOLDER/$NAME.conf" <<END
$MODULE
daemon off; pid "$FOLDER/pid"; error_log "$FOLDER/error.log";
master_process $master; worker_processes $WORKERS;
events { worker_connections 10240; $EVENTS }
http {
    access_log off; keepalive_requests 1000000000; $HTTP
    client_body_temp_path "$FOLDER"; proxy_temp_path "$FOLDER";
    fastcgi_temp_path "$FOLDER"; uwsgi_temp_path "$FOLDER"; scgi_temp_path "$FOLDER";
    server { listen $ADDRESS $LISTEN; location / { $LOCATION } }
}
END
exec nginx -c "$FOLDER/$NAME.conf"
