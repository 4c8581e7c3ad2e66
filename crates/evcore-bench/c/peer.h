/* What each library in C can be asked; `src/foreign.rs` has the same in Rust.
 *
 * A call does a whole run or script, so that the way from Rust to C is paid once. Each file defines
 * `arm_one` and `disarm_one`, of which scripts are made here.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* The benchmark of pollers, as in `src/pollers/ring_of_pairs.rs`: pairs of sockets, where
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

/* An operation on a timer. Times are in milliseconds of a virtual time that begins at 0; no script
 * waits, and none does I/O. */
struct step {
    uint64_t deadline;
    uint32_t id;
};

/* The end of virtual time: every deadline comes before it. */
#define END_MS 180000

struct peer {
    /* A loop that watches `n` descriptors, near ends of pairs, and has so many timers. If it watches any,
     * each of its timers belongs to a pair: it is armed, and armed again whenever the pair is served.
     * `due`: the loop's own time is past the end of virtual time, so that all timers are due as soon as it
     * looks, and `arm` is called once; else virtual time begins with the loop's. */
    void *(*create)(const int *watched, size_t n, size_t timers, int due);
    void (*destroy)(void *loop);
    /* Arms, or arms again; or disarms before each. */
    void (*arm)(void *loop, const struct step *steps, size_t n, int disarms);
    /* Expires all that is armed; returns how many fired. */
    size_t (*expire)(void *loop);
    /* Serves until no events are left. NULL for a timer queue alone, as is the next. */
    void (*run)(void *loop, struct ring *ring);
    /* Stops watching the first descriptor and starts again, so many times. */
    void (*toggle)(void *loop, size_t times);
    /* Takes what is due whenever a millisecond begins, and arms it again; a step's deadline is `timeout`
     * from then. NULL where the time cannot be set. */
    void (*serve)(void *loop, const struct step *steps, size_t n, uint64_t timeout);
};

/* Arms a timer at a deadline of virtual time, or arms it again. */
static inline void arm_one(void *loop, size_t id, uint64_t deadline);
static inline void disarm_one(void *loop, size_t id);

static void arm(void *loop, const struct step *steps, size_t n, int disarms) {
    for (size_t i = 0; i < n; i++) {
        if (disarms)
            disarm_one(loop, steps[i].id);
        arm_one(loop, steps[i].id, steps[i].deadline);
    }
}

/* Reads the byte of a pair, and passes one on to the next. */
static inline void serve(struct ring *ring, size_t index) {
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
static inline unsigned delay_ms(const struct ring *ring) {
    return 10000 + ring->left * 7919 % 1000;
}

static inline void *zeroed(size_t n, size_t size) {
    void *memory = calloc(n + 1, size);
    if (!memory)
        abort();
    return memory;
}

#endif
