/* What each poller in C can be asked; `src/pollers/foreign.rs` has the same in Rust.
 *
 * A call does a whole run, so that the way from Rust to C is paid once.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* The benchmark's own state, as in `src/pollers/ring.rs`: pairs of sockets, where
 * what is written to a far end can be read from the near one. */
struct ring {
    const int *near;
    const int *far;
    size_t n;
    /* Bytes that are still to be passed on. */
    size_t writes;
    /* Events that are still to come. */
    size_t left;
};

/* Reads the byte of a pair, and passes one on to the next. */
static inline void serve(struct ring *ring, size_t index)
{
    char byte;
    size_t next = index + 1 == ring->n ? 0 : index + 1;
    ring->left--;
    if (read(ring->near[index], &byte, 1) != 1)
        abort(); /* it was no event */
    if (ring->writes > 0) {
        ring->writes--;
        if (write(ring->far[next], &byte, 1) != 1)
            abort();
    }
}

/* From now to the deadline that a timer gets: 10 to 11 seconds. */
static inline unsigned delay_ms(const struct ring *ring)
{
    return 10000 + ring->left * 7919 % 1000;
}

struct peer {
    const char *(*version)(void);
    /* Watches descriptors, near ends of pairs. `timers`: each has a timer, which is
     * armed, and armed again whenever the pair is served. */
    void *(*create)(const int *watched, size_t n, int timers);
    /* Serves until no events are left. */
    void (*run)(void *poller, struct ring *ring);
    /* Stops watching the first descriptor and starts again, so many times. */
    void (*toggle)(void *poller, size_t times);
    void (*destroy)(void *poller);
};

#endif
