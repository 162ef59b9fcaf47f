"""MirroredStrategy: one process, a replica on each of its GPUs; compared with one replica.

Where there is no GPU two logical devices of the CPU stand for two. Keras' `fit` does the training.
"""

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS, BATCH, ROWS = 3, 100, 1_600


def fit(strategy: tf.distribute.Strategy) -> tuple[float, np.ndarray]:
    keras.utils.set_random_seed(1)
    digits = load_digits()
    data = tf.data.Dataset.from_tensor_slices((digits.data[:ROWS] / 16.0, digits.target[:ROWS]))
    with strategy.scope():
        layers = [keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.SGD(0.5), loss=loss)
    history = model.fit(data.batch(BATCH), epochs=EPOCHS, verbose=0)
    weights = [np.ravel(keras.ops.convert_to_numpy(weight)) for weight in model.weights]
    return history.history["loss"][-1], np.concatenate(weights)


def main() -> None:
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU":
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
        tf.config.set_logical_device_configuration(cpu, two)
    devices = [device.name for device in tf.config.list_logical_devices(kind)]
    strategy = tf.distribute.MirroredStrategy(devices)
    loss, weights = fit(strategy)
    alone, expected = fit(tf.distribute.OneDeviceStrategy(devices[0]))
    difference = float(np.abs(weights - expected).max())
    print(f"{strategy.num_replicas_in_sync} replicas in one process: loss {loss:.9f}")
    print(f"one replica: loss {alone:.9f}  difference {difference:.1e}")
    if difference > 1e-4:
        raise SystemExit("the replicas' weights differ from one replica's")


if __name__ == "__main__":
    main()
