//! The text of `--help`.

/// The text of `--help`.
pub const HELP: &str = "\
An HTTP server on every part of evcore.

Usage: httpd [OPTIONS]

  --listen ADDR            ADDRESS:PORT, [IPV6]:PORT or unix:PATH; may be
                           repeated; sockets that a service manager passes
                           (LISTEN_FDS) are added
                                         [default: 127.0.0.1:8080, if none is passed]
  --workers N|auto         number of worker processes; auto: one for each CPU;
                           0: serve in this process, without a master
                                                                   [default: auto]
  --threads N              number of worker threads, instead of processes
  --cpu-affinity LIST      CPUs of the workers: auto, auto MASK, or a mask for
                           each worker; not with --workers 0       [default: none]
  --accept POLICY          how workers share the listeners: off, mutex,
                           exclusive, reuseport or least-loaded. Only epoll has
                           exclusive wake-ups: on other pollers, exclusive is
                           the same as off, and least-loaded uses the accept
                           lock                            [default: least-loaded]
  --accept-delay MS        how long a worker that does not listen waits before
                           it tries again, in milliseconds (nginx:
                           accept_mutex_delay)                      [default: 500]
  --multi-accept N         the most connections accepted in one turn of the
                           event loop                                [default: 64]
  --poller NAME            auto, epoll, kqueue, port, devpoll, poll or select, if
                           the system has it; io_uring, if Linux permits it
                           (with --accept off and exclusive, a connection
                           wakes all workers on it);
                           epoll-masked, to test the server's edge-triggered
                           reads                                   [default: auto]
  --timers NAME            timer queue: wheel, tree or heap       [default: wheel]
  --timer-resolution MS    interval of clock updates, in milliseconds
                                                             [default: every turn]
  --connections N          the most connections of one worker     [default: 10240]
  --header-timeout MS      time for a request head, between two reads of a body,
                           and for a body to wait for memory, in milliseconds
                                                                  [default: 60000]
  --keepalive-timeout MS   time that a connection may be idle, in milliseconds
                                                                  [default: 65000]
  --send-timeout MS        time between two successful writes of a response, in
                           milliseconds                           [default: 60000]
  --send-buffer BYTES      what the kernel may hold of the responses of one
                           connection; it doubles the number. Not for Unix
                           sockets                         [default: the system's]
  --shutdown-timeout MS    time for open connections after QUIT, in milliseconds
                                                                  [default: 30000]
  --handover on|off        whether open connections move to the new workers after
                           HUP, and after USR2 and QUIT; not with --workers 0
                           or --threads           [default: on; off without Linux]
  --rebalance on|off       whether idle ones move to workers that have fewer; not
                           with --accept off or reuseport         [default: on]
  --proxy-protocol NETWORKS
                           load balancers whose connections begin with a header
                           of the PROXY protocol (1 or 2), which has the
                           client's address: networks such as 10.0.0.0/8,
                           addresses, and unix: for Unix sockets; others are
                           served without it                      [default: none]
  --bodies BYTES           memory of one worker for all unfinished request
                           bodies; more bodies wait            [default: 67108864]
  --access-log PATH        write a line for each response; -: to standard output;
                           lines that a full pipe or disk refuses are lost and
                           counted                                 [default: none]
  --access-log-format F    common (the common log format) or json [default: common]
  --log-level LEVEL        what to log to standard error: error; debug: also
                           connections and plans of the event loop; trace: also
                           its turns, steps and timers. debug and trace need a
                           build with `--features tracing`         [default: error]
  --quiet                  log only errors, and the addresses that it listens on
  --watchdog MS            log a turn of the event loop that takes longer, in
                           milliseconds; at most one a second      [default: none]
  --flight-recorder N      keep the last N records of what the event loop does,
                           and log them after a panic of the worker, and with
                           each turn that --watchdog logs             [default: 0]
  --pid FILE               write the process id of the master      [default: none]
  --root DIR               serve the files in DIR at /files/; symbolic links are
                           followed within DIR                     [default: none]
  --index FILE             the file in a directory that is served for the
                           directory; needs --root                 [default: none]
  --open-files N           the most files that one worker keeps open for later
                           requests, for up to a second without a look at the
                           directory; needs --root                 [default: 1000]
  --no-delay-endpoints     disable /sleep and /block
  --demo                   put a load on the server that shows the dashboard at
                           work: every few seconds a worker is killed, clients
                           leave, or all workers are replaced
  --help                   print this text

Paths: /  /bytes/N  /echo (POST)  /sleep/MS  /block/MS  /worker  /status
/status.json  /metrics  /dashboard  /dashboard.js  /dashboard.css
/files/NAME (with --root)

Signals, to the master:
  TERM, INT  stop now
  QUIT       finish open requests, then stop; idle connections are closed, those
             that received a response within the last second a second later
  HUP        start new workers, which take over the connections of the old ones;
             those then finish open requests and stop
  USR1       reopen the access log
  USR2       start a new binary with the same listeners (not with --threads)
  WINCH      send QUIT to the workers; HUP starts new ones
With --workers 0, only TERM, INT, QUIT and USR1 are handled.
";
