/* nginx's timers: `ngx_rbtree.c` and `ngx_event_timer.c` of the source that `NGINX_SOURCE` named
 * when this was built. They are compiled unchanged, with the headers of `nginx/`.
 *
 * The program has one tree, so another thread's queue waits until this one is destroyed.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include <ngx_event.h>

#include "peer.h"

volatile ngx_msec_t ngx_current_msec;
static pthread_mutex_t in_use = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

struct self {
    size_t fired;
    /* The deadline at which an expired timer is armed again, or 0 if it is not armed again. */
    uint64_t again;
    ngx_event_t events[];
};

static void fire(ngx_event_t *event) {
    struct self *self = event->data;
    self->fired++;
    if (self->again)
        ngx_event_add_timer(event, self->again - ngx_current_msec);
}

static struct self *create(const int *watched, size_t n, size_t ids, int due, long option) {
    struct self *self = zeroed(1, sizeof *self + ids * sizeof self->events[0]);
    if (pthread_mutex_lock(&in_use)) /* this thread has another one */
        abort();
    ngx_event_timer_init(NULL);
    ngx_current_msec = due ? END_MS : 0;
    for (size_t id = 0; id < ids; id++) {
        self->events[id].data = self;
        self->events[id].handler = fire;
    }
    return self;
}

static void destroy(struct self *self) {
    pthread_mutex_unlock(&in_use);
    free(self);
}

/* The delay to a deadline in the past wraps, and the sum of the delay and the time wraps back. */
static inline void arm_one(struct self *self, size_t id, uint64_t deadline) {
    ngx_event_add_timer(&self->events[id], deadline - ngx_current_msec);
}

static inline void disarm_one(struct self *self, size_t id) {
    ngx_event_del_timer(&self->events[id]);
}

static size_t expire(struct self *self) {
    self->fired = 0;
    self->again = 0;
    ngx_event_expire_timers();
    return self->fired;
}

static void rearm_due(struct self *self, uint64_t now, uint64_t deadline) {
    ngx_current_msec = now;
    self->again = deadline;
    ngx_event_expire_timers();
}

static void turns(struct self *self, const struct step *steps, size_t n, int closes) {
    for (size_t i = 0; i < n; i++) {
        arm_one(self, steps[i].id, steps[i].deadline);
        if (closes)
            disarm_one(self, steps[i].id);
        ngx_msec_t left = ngx_event_find_timer();
        __asm__ volatile("" : : "r"(left) : "memory"); /* uses the result */
        rearm_due(self, steps[i].deadline - TIMEOUT_MS, steps[i].deadline);
    }
}

const struct peer nginx_own = { create, destroy, arm, expire, NULL, NULL, rearm_due, 0, turns };
