/* The part of nginx's configuration that its timers need, so that nginx's source need not be
 * configured. The files of this directory replace nginx's files of the same names. */
#ifndef NGX_CONFIG_H
#define NGX_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#define ngx_inline inline
typedef intptr_t ngx_int_t;
typedef uintptr_t ngx_uint_t;
typedef unsigned char u_char;

#endif
