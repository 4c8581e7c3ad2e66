/* The functions of a peer in C. `src/foreign.rs` declares the same in Rust.
 *
 * One call does a whole run, script or millisecond of serving, so that the cost of calling C from
 * Rust counts only once for all of it. Each file defines `struct self`, which is a loop or a queue,
 * and the functions `arm_one` and `disarm_one`, by which `arm` executes a script.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct self;

/* An operation on a timer. Times are in milliseconds of a virtual time that begins at 0; scripts do
 * not wait or do I/O. */
struct step {
    uint64_t deadline;
    uint32_t id;
};

/* The end of virtual time: every deadline comes before it. */
#define END_MS 180000

/* Milliseconds from an event to its timeout. */
#define TIMEOUT_MS 60000

struct peer {
    /* Creates a loop that watches `n` descriptors, which are near ends of pairs, and has `timers`
     * timers. If it watches any, each timer belongs to a pair: it is armed at once, and again
     * whenever the pair is served. If `due`, the loop's own time is past the end of virtual time,
     * so that all timers are due at the first `expire`, and `arm` is called only once. Otherwise
     * virtual time begins with the loop's time. */
    struct self *(*create)(const int *watched, size_t n, size_t timers, int due, long option);
    void (*destroy)(struct self *self);
    /* Arms the timers of the steps, or arms them again. If `disarms`, each is disarmed before. */
    void (*arm)(struct self *self, const struct step *steps, size_t n, int disarms);
    /* Expires the timers that are due, and returns how many fired. */
    size_t (*expire)(struct self *self);
    /* Serves `left` events, of which `writes` write a byte to a far end. Returns how many events
     * did not come. This and `toggle` are NULL for a peer that has only timers. */
    size_t (*run)(struct self *self, const int *far, size_t writes, size_t left);
    /* Stops watching the first descriptor and starts again, `times` times. */
    void (*toggle)(struct self *self, size_t times);
    /* Takes the timers that are due at `now`, and arms them again. NULL if the time cannot be
     * set. */
    void (*rearm_due)(struct self *self, uint64_t now, uint64_t deadline);
    /* An argument of `create`, by which two peers of the same library differ. */
    long option;
    /* Serves a turn for each step: arms the step's timer `TIMEOUT_MS` from the time of the turn,
     * disarms it if the connection `closes`, finds the next deadline, and arms again the timers
     * that are due. NULL if the time cannot be set. */
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
