/* A loop that watches descriptors and has timers. The file of a library defines the types
 * `library`, `watcher` and `timer` before it includes this file, and defines the functions that are
 * declared here after that. */
#include "peer.h"

#include <unistd.h>

/* The benchmark of pollers, as in `src/pollers/ring_of_pairs.rs`. A byte that is written to the far
 * end of a pair of sockets can be read from its near end. */
struct ring {
    const int *near;
    const int *far;
    size_t n;
    /* Number of bytes that will still be passed on. */
    size_t writes;
    /* Number of events that will still come. */
    size_t left;
};

struct self {
    library library;
    struct ring *ring;
    const int *watched;
    size_t n, timed, fired;
    /* The beginning of virtual time, in seconds of the loop's time. */
    double start;
    timer *timers;
    watcher watchers[];
};

static void open_library(struct self *self, long option);
static void close_library(struct self *self);
static void init_timer(struct self *self, timer *timer);
static void init_watcher(struct self *self, watcher *watcher, size_t index);
static inline void start(struct self *self, watcher *watcher);
static inline void stop(struct self *self, watcher *watcher);
/* Serves the descriptors that are ready and the timers that are due: once, or, if `waits`, until a
 * callback ends the loop. */
static void turn(struct self *self, int waits);

/* Reads the byte of a pair, and passes a byte on to the next pair. */
static inline void serve(struct ring *ring, size_t index) {
    char byte;
    size_t next = index + 1 == ring->n ? 0 : index + 1;
    ring->left--;
    if (read(ring->near[index], &byte, 1) != 1)
        abort(); /* the pair had no byte */
    if (ring->writes > 0) {
        ring->writes--;
        if (write(ring->far[next], &byte, 1) != 1)
            abort();
    }
}

/* The body of a watcher's callback. Returns whether this was the last event. The pair's timer gets
 * a deadline 10 to 11 seconds from now. */
static inline int on_ready(struct self *self, size_t index) {
    serve(self->ring, index);
    if (self->timed)
        arm_one(self, index, 10000 + self->ring->left * 7919 % 1000);
    return self->ring->left == 0;
}

static struct self *create(const int *watched, size_t n, size_t timers, int due, long option) {
    struct self *self = zeroed(1, sizeof *self + n * sizeof self->watchers[0]);
    self->timers = zeroed(timers, sizeof self->timers[0]);
    self->watched = watched;
    self->n = n;
    self->timed = timers;
    self->start = due ? -(END_MS / 1000) : 0;
    open_library(self, option);
    for (size_t id = 0; id < timers; id++)
        init_timer(self, &self->timers[id]);
    for (size_t i = 0; i < n; i++) {
        init_watcher(self, &self->watchers[i], i);
        start(self, &self->watchers[i]);
        if (timers)
            arm_one(self, i, 10000);
    }
    return self;
}

static void destroy(struct self *self) {
    close_library(self);
    free(self->timers);
    free(self);
}

static size_t expire(struct self *self) {
    self->fired = 0;
    turn(self, 0);
    return self->fired;
}

static size_t run(struct self *self, const int *far, size_t writes, size_t left) {
    struct ring ring = { self->watched, far, self->n, writes, left };
    self->ring = &ring;
    turn(self, 1);
    return ring.left;
}

static void toggle(struct self *self, size_t times) {
    while (times-- > 0) {
        stop(self, self->watchers);
        start(self, self->watchers);
    }
}
