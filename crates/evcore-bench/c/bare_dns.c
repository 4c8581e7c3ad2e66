/* A bare epoll server of datagrams: `bare_dns PORT`. It answers each DNS question with the address
 * 192.0.2.1, by one receive and one send for each datagram. It checks only the length of a
 * question. */

#include <arpa/inet.h>
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { HEADER = 12, LONGEST = 512, TURN = 64 };

/* A pointer to the question's name, type A, class IN, 60 s, an address of 4 bytes. */
static const char record[] = "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1";

static int answer_one(int fd) {
    char message[LONGEST + sizeof record];
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    ssize_t n = recvfrom(fd, message, LONGEST, 0, (struct sockaddr *)&peer, &length);
    if (n < HEADER)
        return n >= 0;
    message[2] |= (char)0x84; /* a response, authoritative */
    message[7] = 1;           /* one answer */
    memcpy(message + n, record, sizeof record - 1);
    sendto(fd, message, n + sizeof record - 1, 0, (struct sockaddr *)&peer, length);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), set = epoll_create1(0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        err(1, "bind");
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    for (;;) {
        epoll_wait(set, &event, 1, -1);
        for (int i = 0; i < TURN && answer_one(fd); i++)
            ;
    }
}
