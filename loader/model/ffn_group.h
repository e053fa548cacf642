/* ffn_group.h - the quantisation group at which an FFN is split over ranks. */
#ifndef YK_LOADER_FFN_GROUP_H
#define YK_LOADER_FFN_GROUP_H

#include "loader/model/weight_names.h"

/* yk_ffn_group - number of channels of an FFN of n_channels that share a scale of down, the role of its down_proj: the
 *   maximum over all layers. Layers with other groups may be split inside a group. All experts of a layer have the same
 *   format: the first represents them. 0: no layer is quantised. If matching a name takes too many steps, the layer
 *   counts as not quantised, and yk_checkpoint_linear refuses it. Thread: any. */
int64_t yk_ffn_group(const yk_model_config *config, yk_weight_role down, int64_t n_channels);

#endif
