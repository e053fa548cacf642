/* logit_bias.h - a value that is added to one logit before all other processing of the row. */
#ifndef YK_LOGIT_BIAS_H
#define YK_LOGIT_BIAS_H

#include <stdint.h>

typedef struct yk_logit_bias {
  int32_t token_id;
  float bias; /* in a request: -100 .. 100; in a row on a device also -INFINITY, which bans the id */
} yk_logit_bias;

#endif
