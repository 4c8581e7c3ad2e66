/* libuv: a `uv_poll_t` for each descriptor and, where there are timers, a `uv_timer_t`. */
#include "peer.h"

#include <uv.h>

struct watch {
    uv_poll_t io;
    uv_timer_t timer;
    size_t index;
};

struct poller {
    uv_loop_t loop;
    struct ring *ring;
    int timers;
    size_t n;
    struct watch watches[];
};

static void fire(uv_timer_t *timer)
{
    (void)timer;
}

static void ready(uv_poll_t *io, int status, int events)
{
    struct poller *poller = io->loop->data;
    struct watch *watch = io->data;
    (void)status;
    (void)events;
    serve(poller->ring, watch->index);
    if (poller->timers)
        uv_timer_start(&watch->timer, fire, delay_ms(poller->ring), 0);
    if (poller->ring->left == 0)
        uv_stop(io->loop);
}

static void *create(const int *watched, size_t n, int timers)
{
    struct poller *poller = calloc(1, sizeof *poller + n * sizeof poller->watches[0]);
    if (!poller || uv_loop_init(&poller->loop) != 0)
        abort();
    poller->loop.data = poller;
    poller->timers = timers;
    poller->n = n;
    for (size_t i = 0; i < n; i++) {
        struct watch *watch = &poller->watches[i];
        watch->index = i;
        if (uv_poll_init(&poller->loop, &watch->io, watched[i]) != 0)
            abort();
        watch->io.data = watch;
        uv_poll_start(&watch->io, UV_READABLE, ready);
        uv_timer_init(&poller->loop, &watch->timer);
        if (timers)
            uv_timer_start(&watch->timer, fire, 10000, 0);
    }
    /* What was started is told to the kernel by the next turn. */
    uv_run(&poller->loop, UV_RUN_NOWAIT);
    return poller;
}

static void run(void *arg, struct ring *ring)
{
    struct poller *poller = arg;
    poller->ring = ring;
    uv_run(&poller->loop, UV_RUN_DEFAULT);
}

static void toggle(void *arg, size_t times)
{
    struct poller *poller = arg;
    while (times-- > 0) {
        uv_poll_stop(&poller->watches[0].io);
        uv_poll_start(&poller->watches[0].io, UV_READABLE, ready);
    }
}

static void destroy(void *arg)
{
    struct poller *poller = arg;
    for (size_t i = 0; i < poller->n; i++) {
        uv_close((uv_handle_t *)&poller->watches[i].io, NULL);
        uv_close((uv_handle_t *)&poller->watches[i].timer, NULL);
    }
    uv_run(&poller->loop, UV_RUN_NOWAIT);
    uv_loop_close(&poller->loop);
    free(poller);
}

const struct peer libuv_poller = { uv_version_string, create, run, toggle, destroy };
