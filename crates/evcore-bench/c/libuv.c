/* libuv: a `uv_poll_t` for each descriptor, and `uv_timer_t`s.
 *
 * The loop's time stands still while a script runs, as it does between two turns, so a timeout is a
 * deadline. No timeout reaches back; where all timers are to be due, the loop's time is put back
 * instead, as though a handler had run for that long.
 */
#include "peer.h"

#include <uv.h>

struct loop {
    uv_loop_t uv;
    struct ring *ring;
    size_t n, timed, fired;
    uv_timer_t *timers;
    uv_poll_t ios[];
};

static void fire(uv_timer_t *timer) {
    struct loop *loop = timer->loop->data;
    loop->fired++;
}

static inline void arm_one(void *arg, size_t id, uint64_t deadline) {
    struct loop *loop = arg;
    uv_timer_start(&loop->timers[id], fire, deadline, 0);
}

static inline void disarm_one(void *arg, size_t id) {
    struct loop *loop = arg;
    uv_timer_stop(&loop->timers[id]);
}

static void ready(uv_poll_t *io, int status, int events) {
    struct loop *loop = io->loop->data;
    size_t index = (uintptr_t)io->data;
    serve(loop->ring, index);
    if (loop->timed)
        arm_one(loop, index, delay_ms(loop->ring));
    if (loop->ring->left == 0)
        uv_stop(io->loop);
}

static void *create(const int *watched, size_t n, size_t timers, int due) {
    struct loop *loop = zeroed(1, sizeof *loop + n * sizeof loop->ios[0]);
    loop->timers = zeroed(timers, sizeof loop->timers[0]);
    if (uv_loop_init(&loop->uv) != 0)
        abort();
    loop->uv.data = loop;
    loop->n = n;
    loop->timed = timers;
    if (due) {
        if (loop->uv.time < END_MS)
            abort(); /* the machine has just been started */
        loop->uv.time -= END_MS;
    }
    for (size_t id = 0; id < timers; id++)
        uv_timer_init(&loop->uv, &loop->timers[id]);
    for (size_t i = 0; i < n; i++) {
        if (uv_poll_init(&loop->uv, &loop->ios[i], watched[i]) != 0)
            abort();
        loop->ios[i].data = (void *)i;
        uv_poll_start(&loop->ios[i], UV_READABLE, ready);
        if (timers)
            arm_one(loop, i, 10000);
    }
    /* What was started is told to the kernel by the next turn. */
    if (n)
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    return loop;
}

static void destroy(void *arg) {
    struct loop *loop = arg;
    for (size_t i = 0; i < loop->n; i++)
        uv_close((uv_handle_t *)&loop->ios[i], NULL);
    for (size_t id = 0; id < loop->timed; id++)
        uv_close((uv_handle_t *)&loop->timers[id], NULL);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    uv_loop_close(&loop->uv);
    free(loop->timers);
    free(loop);
}

static size_t expire(void *arg) {
    struct loop *loop = arg;
    loop->fired = 0;
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    return loop->fired;
}

static void run(void *arg, struct ring *ring) {
    struct loop *loop = arg;
    loop->ring = ring;
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

static void toggle(void *arg, size_t times) {
    struct loop *loop = arg;
    while (times-- > 0) {
        uv_poll_stop(&loop->ios[0]);
        uv_poll_start(&loop->ios[0], UV_READABLE, ready);
    }
}

const struct peer libuv = {
    create, destroy, arm, expire, run, toggle, NULL
};
