/* decode_parts.h - the parts of layers that run as one operation (kernels/decode_layers.h), in a timed step. */
#ifndef YK_MODEL_DECODE_PARTS_H
#define YK_MODEL_DECODE_PARTS_H

#include "model/step_profile.h"

/* yk_decode_parts_stamp - adds the parts of n_layers layers from first_layer on, as the operations that they would be
 *   alone. Returns the place of their stamps, for yk_decode_layers_args; NULL: there is no room. Thread: the rank's
 *   own. */
int64_t *yk_decode_parts_stamp(yk_step_profile *profile, int32_t first_layer, int32_t n_layers);

#endif
