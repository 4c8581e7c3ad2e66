/* What each library in C can be asked; `src/foreign.rs` has the same in Rust.
 *
 * A call does a whole run, script or millisecond of serving, so that the way from Rust to C is paid
 * once for it. Each file defines `struct self`, a loop or a queue, and `arm_one` and `disarm_one`, of
 * which scripts are made here.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct self;

/* An operation on a timer. Times are in milliseconds of a virtual time that begins at 0; no script
 * waits, and none does I/O. */
struct step {
    uint64_t deadline;
    uint32_t id;
};

/* The end of virtual time: every deadline comes before it. */
#define END_MS 180000

/* From an event to its timeout. */
#define TIMEOUT_MS 60000

struct peer {
    /* A loop that watches `n` descriptors, near ends of pairs, and has so many timers. If it watches any,
     * each of its timers belongs to a pair: it is armed, and armed again whenever the pair is served.
     * `due`: the loop's own time is past the end of virtual time, so that all timers are due as soon as it
     * looks, and `arm` is called once; else virtual time begins with the loop's. */
    struct self *(*create)(const int *watched, size_t n, size_t timers, int due, long option);
    void (*destroy)(struct self *self);
    /* Arms, or arms again; or disarms before each. */
    void (*arm)(struct self *self, const struct step *steps, size_t n, int disarms);
    /* Expires all that is armed; returns how many fired. */
    size_t (*expire)(struct self *self);
    /* Serves `left` events, of which so many write a byte to a far end; returns how many did not come.
     * NULL for a timer queue alone, as is the next. */
    size_t (*run)(struct self *self, const int *far, size_t writes, size_t left);
    /* Stops watching the first descriptor and starts again, so many times. */
    void (*toggle)(struct self *self, size_t times);
    /* Takes what is due at this time, and arms it again. NULL where the time cannot be set. */
    void (*rearm_due)(struct self *self, uint64_t now, uint64_t deadline);
    /* For `create`: in what this peer differs from another of the same library. */
    long option;
    /* The turns of a server, one a step: arms the step's timer to `TIMEOUT_MS` from now, disarms it if the
     * connection `closes`, looks when the next is due, and arms again what is due. NULL as above. */
    void (*turns)(struct self *self, const struct step *steps, size_t n, int closes);
};

/* Arms a timer at a deadline of virtual time, or arms it again. */
static inline void arm_one(struct self *self, size_t id, uint64_t deadline);
static inline void disarm_one(struct self *self, size_t id);

static void arm(struct self *self, const struct step *steps, size_t n, int disarms) {
    for (size_t i = 0; i < n; i++) {
        if (disarms)
            disarm_one(self, steps[i].id);
        arm_one(self, steps[i].id, steps[i].deadline);
    }
}

static inline void *zeroed(size_t n, size_t size) {
    void *memory = calloc(n + 1, size);
    if (!memory)
        abort();
    return memory;
}

#endif
