/* A bare epoll HTTP server: `bare PORT` answers every request with the same response.
 *
 * It is the least that a server on epoll does: one wait a batch, one receive and one send a request
 * (or a pipelined batch of requests). It does not parse: every empty line ends a request, and a head
 * that arrives in pieces is answered with its last piece. A body is not supported. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 512, INPUT = 16 * 1024, BACKLOG = 1024, MAX_FD = 65536 };

/* As long as httpd's response. */
static const char RESPONSE[] = "HTTP/1.1 200 OK\r\nServer: evcore\r\n"
    "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
    "Content-Length: 13\r\n\r\nHello, World!";
enum { LENGTH = sizeof RESPONSE - 1, MOST = INPUT / 4 };

static char responses[MOST * LENGTH];
/* How many bytes of "\r\n\r\n" each connection has received last. */
static unsigned char matched[MAX_FD];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Counts the empty lines, across reads. */
static int count(int fd, const char *bytes, ssize_t n) {
    int requests = 0;
    unsigned char at = matched[fd];
    for (ssize_t i = 0; i < n; i++) {
        char byte = bytes[i];
        if (byte == "\r\n\r\n"[at])
            at++;
        else
            at = byte == '\r';
        if (at == 4) {
            requests++;
            at = 0;
        }
    }
    matched[fd] = at;
    return requests;
}

static void serve(int fd) {
    char input[INPUT];
    ssize_t n;
    do {
        n = recv(fd, input, sizeof input, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        int requests = n > 0 ? count(fd, input, n) : 0;
        ssize_t length = (ssize_t)requests * LENGTH;
        /* A client that does not read its responses is closed. */
        if (n <= 0 || (length > 0 && send(fd, responses, length, MSG_NOSIGNAL) != length)) {
            close(fd);
            return;
        }
        /* A short read has emptied the socket. */
    } while (n == sizeof input);
}

static void accept_all(int set, int listener) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.fd = fd};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (fd >= MAX_FD || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0)
            close(fd);
        else
            matched[fd] = 0;
    }
}

int main(int argc, char **argv) {
    static struct epoll_event events[BATCH];
    struct sockaddr_in address = {.sin_family = AF_INET};
    int on = 1, set = epoll_create1(EPOLL_CLOEXEC);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address.sin_port = htons(argc > 1 ? atoi(argv[1]) : 8080);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, BACKLOG) < 0)
        fail("listen");
    struct epoll_event listening = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &listening);
    for (int i = 0; i < MOST; i++)
        memcpy(responses + i * LENGTH, RESPONSE, LENGTH);
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
