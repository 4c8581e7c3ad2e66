/* A bare epoll HTTP server: `bare PORT WORKERS KIND`. It does the least that a server on epoll can
 * do: one wait for each batch of events, and one receive and one send for each request. It does not
 * parse requests: every empty line ends one, and a head that arrives in pieces is answered when its
 * last piece has arrived. A body is not supported.
 *
 * If WORKERS is 0, one process serves, and every response is the same (KIND is `hello`). Otherwise
 * a worker responds with its process id, and a request for `/block/MS` blocks it. The workers share
 * one listener (KIND `shared`), share one with EPOLLEXCLUSIVE (`exclusive`), or have a listener
 * each (`reuseport`). */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 512, INPUT = 16 * 1024, BACKLOG = 1024, MAX_FD = 65536 };

/* The response has the length of httpd's response. */
static char response[256] = "HTTP/1.1 200 OK\r\nServer: evcore\r\n"
    "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
    "Content-Length: 13\r\n\r\nHello, World!";
static int length, blocks;
/* The last three bytes that each connection has received after the end of a request. */
static char last[MAX_FD][3];

/* Counts the empty lines of a connection's input, also one that is divided between two reads. There
 * is room for three more bytes before `bytes`. The C library's search goes from line to line. */
static int count(int fd, char *bytes, ssize_t n) {
    char *start = memcpy(bytes - 3, last[fd], 3), *end = bytes + n, *at = bytes;
    int requests = 0;
    while (at < end && (at = memchr(at, '\n', end - at))) {
        if (at - start >= 3 && !memcmp(at - 3, "\r\n\r\n", 4)) {
            requests++;
            start = at + 1;
        }
        at++;
    }
    memset(last[fd], 0, 3);
    ssize_t kept = end - start < 3 ? end - start : 3;
    memcpy(last[fd] + 3 - kept, end - kept, kept);
    return requests;
}

static void serve(int fd) {
    char buffer[3 + INPUT], *input = buffer + 3;
    unsigned ms;
    ssize_t n;
    do {
        n = recv(fd, input, INPUT - 1, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        int requests = n > 0 ? count(fd, input, n) : 0, fails = n <= 0;
        input[n > 0 ? n : 0] = 0;
        if (blocks && sscanf(input, "GET /block/%u", &ms) == 1)
            usleep(ms * 1000);
        for (; requests > 0 && !fails; requests--)
            fails = send(fd, response, length, MSG_NOSIGNAL) != length;
        /* The connection has ended, or the client does not read its responses. */
        if (fails) {
            close(fd);
            return;
        }
        /* A short read has emptied the socket. */
    } while (n == INPUT - 1);
}

static void accept_all(int set, int listener) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.fd = fd};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (fd >= MAX_FD || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0)
            close(fd);
        else
            memset(last[fd], 0, sizeof last[fd]);
    }
}

static int listen_on(int port, int reuse_port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, reuse_port ? SO_REUSEPORT : SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, BACKLOG) < 0)
        err(1, "listen");
    return listener;
}

static void work(int listener, int exclusive) {
    static struct epoll_event events[BATCH];
    struct epoll_event listening = {.events = EPOLLIN | exclusive, .data.fd = listener};
    int set = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &listening);
    for (;;) {
        int n = epoll_wait(set, events, BATCH, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                accept_all(set, listener);
            else
                serve(events[i].data.fd);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int port = atoi(argv[1]), workers = atoi(argv[2]), each = !strcmp(argv[3], "reuseport");
    int exclusive = strcmp(argv[3], "exclusive") ? 0 : EPOLLEXCLUSIVE;
    /* With `reuseport`, a listener of the parent would get connections that no worker accepts. */
    int listener = each ? -1 : listen_on(port, 0);
    length = strlen(response);
    if (workers == 0)
        work(listener, 0);
    for (int i = 0; i < workers; i++) {
        if (fork() == 0) {
            int pid = getpid();
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            length = sprintf(response, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d",
                             snprintf(NULL, 0, "%d", pid), pid);
            blocks = 1;
            work(each ? listen_on(port, 1) : listener, exclusive);
        }
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
