/* model_device.h - whether a device supports a model: the same check for plans and for loading. */
#ifndef YK_MODEL_MODEL_DEVICE_H
#define YK_MODEL_MODEL_DEVICE_H

#include "base/status.h"
#include "kernels/abilities.h"
#include "loader/model/model_config.h"

/* yk_model_check_device - refuse a model with sizes that the device's operations do not support.
 *   Errors: YK_E_UNSUPPORTED, which names all of them. Thread: any. */
yk_status yk_model_check_device(const yk_model_config *config, const yk_device_abilities *device, yk_err *err);

#endif
