/* libuv's heap, by `uv_timer_start` and `uv_timer_stop`.
 *
 * The loop's time stands still while a script runs, as it does between two
 * turns, so a timeout is a deadline. No timeout reaches back; where all timers
 * are to be due, the loop's time is put back instead, as though a handler had
 * run for that long.
 */
#include "peer.h"

#include <stdlib.h>
#include <uv.h>

struct queue {
    uv_loop_t loop;
    size_t fired;
    size_t ids;
    uv_timer_t timers[];
};

static void fire(uv_timer_t *timer)
{
    struct queue *queue = timer->loop->data;
    queue->fired++;
}

static void *create(size_t ids, int due)
{
    struct queue *queue = calloc(1, sizeof *queue + ids * sizeof queue->timers[0]);
    if (!queue || uv_loop_init(&queue->loop) != 0)
        abort();
    queue->loop.data = queue;
    if (due) {
        if (queue->loop.time < END_MS)
            abort(); /* the machine has just been started */
        queue->loop.time -= END_MS;
    }
    queue->ids = ids;
    for (size_t id = 0; id < ids; id++)
        uv_timer_init(&queue->loop, &queue->timers[id]);
    return queue;
}

static void arm(void *arg, const struct step *steps, size_t n)
{
    struct queue *queue = arg;
    for (size_t i = 0; i < n; i++)
        uv_timer_start(&queue->timers[steps[i].id], fire, steps[i].deadline, 0);
}

static void replace(void *arg, const struct step *steps, size_t n)
{
    struct queue *queue = arg;
    for (size_t i = 0; i < n; i++) {
        uv_timer_stop(&queue->timers[steps[i].id]);
        uv_timer_start(&queue->timers[steps[i].id], fire, steps[i].deadline, 0);
    }
}

static size_t expire(void *arg)
{
    struct queue *queue = arg;
    queue->fired = 0;
    uv_run(&queue->loop, UV_RUN_NOWAIT);
    return queue->fired;
}

static void destroy(void *arg)
{
    struct queue *queue = arg;
    for (size_t id = 0; id < queue->ids; id++)
        uv_close((uv_handle_t *)&queue->timers[id], NULL);
    uv_run(&queue->loop, UV_RUN_NOWAIT);
    uv_loop_close(&queue->loop);
    free(queue);
}

const struct peer libuv_peer = {
    uv_version_string, create, arm, replace, expire, destroy, NULL
};
