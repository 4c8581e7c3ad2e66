/* A bare epoll HTTP server: `bare PORT WORKERS KIND`. It is the least that a server on epoll does: one
 * wait a batch, one receive and one send a request (or a pipelined batch of requests). It does not parse:
 * every empty line ends a request, and a head that arrives in pieces is answered with its last piece. A
 * body is not supported.
 *
 * KIND `hello`: every response is the same. The others respond with the worker's process id, and block
 * for a request of `/block/MS`: the workers have one listener (`shared`), one with EPOLLEXCLUSIVE
 * (`exclusive`) or one each (`reuseport`). Without workers, one process serves. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 512, INPUT = 16 * 1024, BACKLOG = 1024, MAX_FD = 65536, MOST = INPUT / 4 };

/* As long as httpd's response. */
static const char HELLO[] = "HTTP/1.1 200 OK\r\nServer: evcore\r\n"
    "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
    "Content-Length: 13\r\n\r\nHello, World!";

static char responses[MOST * sizeof HELLO];
static size_t length;
static int blocks;
/* The last four bytes that each connection has received. */
static uint32_t last[MAX_FD];

/* Counts the empty lines, across reads: each is the bytes \r\n\r\n. */
static int count(int fd, const char *bytes, ssize_t n) {
    int requests = 0;
    uint32_t four = last[fd];
    for (ssize_t i = 0; i < n; i++) {
        four = four << 8 | (unsigned char)bytes[i];
        requests += four == 0x0d0a0d0a;
    }
    last[fd] = four;
    return requests;
}

static void serve(int fd) {
    char input[INPUT];
    unsigned ms;
    ssize_t n;
    do {
        n = recv(fd, input, sizeof input - 1, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        ssize_t bytes = n > 0 ? (ssize_t)(count(fd, input, n) * length) : 0;
        input[n > 0 ? n : 0] = 0;
        if (blocks && sscanf(input, "GET /block/%u", &ms) == 1)
            usleep(ms * 1000);
        /* A client that does not read its responses is closed. */
        if (n <= 0 || (bytes > 0 && send(fd, responses, bytes, MSG_NOSIGNAL) != bytes)) {
            close(fd);
            return;
        }
        /* A short read has emptied the socket. */
    } while (n == sizeof input - 1);
}

static void accept_all(int set, int listener) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.fd = fd};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (fd >= MAX_FD || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0)
            close(fd);
        else
            last[fd] = 0;
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

static void respond_with(const char *response) {
    length = strlen(response);
    for (int i = 0; i < MOST; i++)
        memcpy(responses + i * length, response, length);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int port = atoi(argv[1]), workers = atoi(argv[2]), each = !strcmp(argv[3], "reuseport");
    int exclusive = strcmp(argv[3], "exclusive") ? 0 : EPOLLEXCLUSIVE;
    int listener = listen_on(port, each);
    respond_with(HELLO);
    for (int i = 0; i < workers; i++) {
        /* Before the fork, so that all listen when the first can be reached. */
        int own = each && i > 0 ? listen_on(port, each) : listener;
        if (fork() == 0) {
            char response[128];
            int pid = getpid(), digits = snprintf(NULL, 0, "%d", pid);
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            snprintf(response, sizeof response, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d",
                     digits, pid);
            respond_with(response);
            blocks = 1;
            work(own, exclusive);
        }
        if (own != listener)
            close(own);
    }
    /* A listener without a worker would get connections that nobody accepts. */
    if (workers > 0) {
        close(listener);
        while (wait(NULL) > 0)
            ;
        return 0;
    }
    work(listener, 0);
}
