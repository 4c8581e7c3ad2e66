/* Measures the latency and the CPU time of epoll's busy polling for docs/decisions/0031. It is
 * built and run by hand.
 *
 *     busy_poll serve PORT off|socket|epoll US     echoes, one connection after another
 *     busy_poll ask ADDRESS PORT COUNT PAUSE_US    prints the median and the 99th percentile
 *
 * For each connection, the server prints its own CPU time, the duration of the connection, and the
 * NAPI id of the connection's socket. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct params { uint32_t us; uint16_t budget; uint8_t prefer, pad; };
#define SET_PARAMS _IOW(0x8a, 1, struct params)
#define CHECK(call) do { if ((call) < 0) { perror(#call); exit(1); } } while (0)

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static struct sockaddr_in address(const char *ip, const char *port) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
    inet_pton(AF_INET, ip, &a.sin_addr);
    return a;
}

static void serve(const char *port, const char *mode, int us) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = address("0.0.0.0", port);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    CHECK(bind(listener, (struct sockaddr *)&a, sizeof a));
    CHECK(listen(listener, 8));
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), set = epoll_create1(0);
        CHECK(fd);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (!strcmp(mode, "socket"))
            CHECK(setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof us));
        struct params params = { us, 8, 0, 0 };
        if (!strcmp(mode, "epoll"))
            CHECK(ioctl(set, SET_PARAMS, &params));
        struct epoll_event event = { .events = EPOLLIN | EPOLLET };
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        double began = now_us(), cpu = cpu_us();
        char byte[64];
        long n = 1;
        int napi = 0;
        socklen_t length = sizeof napi;
        while (n != 0) {
            epoll_wait(set, &event, 1, -1);
            while ((n = read(fd, byte, sizeof byte)) > 0)
                CHECK(write(fd, byte, n));
            getsockopt(fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &napi, &length);
        }
        fprintf(stderr, "    cpu %.0f ms of %.0f ms, napi %d\n", (cpu_us() - cpu) / 1e3,
                (now_us() - began) / 1e3, napi);
        close(fd);
        close(set);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ask(const char *ip, const char *port, int count, int pause_us) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = address(ip, port);
    CHECK(connect(fd, (struct sockaddr *)&a, sizeof a));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    double *took = malloc(count * sizeof *took);
    char byte = 'x';
    for (int i = 0; i < count; i++) {
        if (pause_us)
            usleep(pause_us);
        double began = now_us();
        CHECK(write(fd, &byte, 1));
        CHECK(read(fd, &byte, 1));
        took[i] = now_us() - began;
    }
    qsort(took, count, sizeof *took, by_value);
    printf("median %.1f us, 99%% %.1f us\n", took[count / 2], took[count / 100 * 99]);
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "serve"))
        serve(argv[2], argv[3], atoi(argv[4]));
    else if (argc == 6 && !strcmp(argv[1], "ask"))
        ask(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
    return 1;
}
