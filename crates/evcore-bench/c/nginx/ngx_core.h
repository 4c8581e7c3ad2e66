/* The part of nginx's core that its timers need. */
#ifndef NGX_CORE_H
#define NGX_CORE_H

#include <ngx_config.h>

#define NGX_OK 0
#define NGX_AGAIN -2
#define ngx_abs(value) (((value) >= 0) ? (value) : -(value))
/* As in a build without `--with-debug`. */
#define ngx_log_debug2(level, log, err, fmt, a, b)
#define ngx_log_debug3(level, log, err, fmt, a, b, c)

typedef ngx_uint_t ngx_msec_t;
typedef ngx_int_t ngx_msec_int_t;
typedef struct ngx_log_s ngx_log_t;
typedef struct ngx_event_s ngx_event_t;

#include <ngx_rbtree.h>

#endif
