/* The part of nginx's events that its timers need. An event has nginx's layout on Linux, and
 * nginx's names for the members that the timers use. */
#ifndef NGX_EVENT_H
#define NGX_EVENT_H

#include <ngx_core.h>

struct ngx_event_s {
    void *data;
    unsigned timedout : 1;
    unsigned timer_set : 1;
    unsigned cancelable : 1;
    int available;
    void (*handler)(ngx_event_t *event);
    ngx_uint_t index;
    ngx_log_t *log;
    ngx_rbtree_node_t timer;
    void *queue[2];
};

extern volatile ngx_msec_t ngx_current_msec;

#define ngx_del_timer ngx_event_del_timer

#include <ngx_event_timer.h>

#endif
