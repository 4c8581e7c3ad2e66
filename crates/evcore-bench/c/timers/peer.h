/* What each timer queue in C can be asked; `src/timers/foreign.rs` has the same in Rust.
 *
 * A call does a whole script, so that the way from Rust to C is paid once and
 * the loop stands where the calls are. Times are in milliseconds of a virtual
 * time that begins at 0; no peer waits, and none does I/O.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

struct step {
    uint64_t deadline;
    uint32_t id;
};

struct peer {
    const char *(*version)(void);
    /* `due`: the loop's own time is past the end of virtual time, so that all
     * timers are due as soon as it looks, and `arm` is called once; else virtual
     * time begins with the loop's. */
    void *(*create)(size_t ids, int due);
    /* Arms, or arms again. */
    void (*arm)(void *queue, const struct step *steps, size_t n);
    /* Disarms, then arms. */
    void (*replace)(void *queue, const struct step *steps, size_t n);
    /* Expires all that is armed; returns how many fired. */
    size_t (*expire)(void *queue);
    void (*destroy)(void *queue);
    /* Takes what is due whenever a millisecond begins, and arms it again; a
     * step's deadline is `timeout` from then. NULL where the time cannot be set. */
    void (*serve)(void *queue, const struct step *steps, size_t n, uint64_t timeout);
};

/* The end of virtual time: every deadline comes before it. */
#define END_MS 180000

#endif
