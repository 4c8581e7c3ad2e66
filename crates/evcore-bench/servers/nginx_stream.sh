# nginx as a proxy of bytes, which passes on the end of one side as the example `proxy` does. The
# module is loaded if this nginx has it as a file.
module=$(dirname "$(command -v nginx)")/../lib/nginx/modules/ngx_stream_module.so
if [ -e "$module" ]; then echo "load_module \"$module\";" >"$FOLDER/$NAME.conf"
else : >"$FOLDER/$NAME.conf"; fi
cat >>"$FOLDER/$NAME.conf" <<END
daemon off; pid "$FOLDER/pid"; error_log "$FOLDER/error.log";
master_process off; worker_processes 0;
events { worker_connections 10240; }
stream {
    server { listen $ADDRESS backlog=1024; proxy_pass $UPSTREAM; proxy_half_close on; }
}
END
exec nginx -c "$FOLDER/$NAME.conf"
