/* abilities.h - the sizes of models that a device's operations support. Tables of data, in every build, so that a plan
 * for a device that the machine lacks refuses the same models as the device. Every device has all operations of
 * device.h. */
#ifndef YK_KERNELS_ABILITIES_H
#define YK_KERNELS_ABILITIES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_device_abilities {
  const char *name; /* name of the device, as in its table of operations */
  /* Heads of attention other than latent have a multiple of head_dim_unit elements, at most max_head_dim. */
  int32_t head_dim_unit, max_head_dim;
  int32_t max_hidden, max_vocab;
} yk_device_abilities;

#ifdef __cplusplus
}
#endif
#endif
