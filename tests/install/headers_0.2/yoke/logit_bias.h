/* logit_bias.h - what is added to one logit before anything else is done with the row. */
#ifndef YK_LOGIT_BIAS_H
#define YK_LOGIT_BIAS_H

#include <stdint.h>

typedef struct yk_logit_bias {
  int32_t token_id;
  float bias; /* of a request: -100 .. 100; of a device's row also -INFINITY, which bans the id */
} yk_logit_bias;

#endif
