"""TensorFlow over all workers of the gang (MultiWorkerMirroredStrategy), compared with one process.

Reads what `framework: tensorflow` tells it, TF_CONFIG. Run alone it is one worker.
"""

import tensorflow as tf
from sklearn.datasets import load_digits

STEPS = 20


def data() -> tuple[tf.Tensor, tf.Tensor]:
    digits = load_digits()
    count = len(digits.data) // 4 * 4  # equal shards on up to four workers
    return tf.constant(digits.data[:count] / 16.0), tf.constant(digits.target[:count])


def train(strategy: tf.distribute.Strategy, rank: int, world_size: int) -> tuple[float, tf.Tensor]:
    images, labels = data()
    mine, answers = images[rank::world_size], labels[rank::world_size]
    with strategy.scope():
        weights = tf.Variable(tf.zeros((64, 10), tf.float64))

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(answers, mine @ weights)
            loss = tf.reduce_mean(losses)
        context = tf.distribute.get_replica_context()
        mean = context.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, weights))
        weights.assign_sub(0.5 * mean)
        return loss

    loss = tf.constant(0.0)
    for _ in range(STEPS):
        loss = strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(step), axis=None)
    return float(loss), tf.convert_to_tensor(weights)


def main() -> None:
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=cluster)
    rank, world_size = cluster.task_id or 0, strategy.num_replicas_in_sync
    loss, weights = train(strategy, rank, world_size)
    print(f"rank {rank} of {world_size}: loss {loss:.9f}", flush=True)
    if rank == 0:
        alone, expected = train(tf.distribute.get_strategy(), 0, 1)
        difference = float(tf.reduce_max(tf.abs(weights - expected)))
        print(f"one process: loss {alone:.9f}  difference {difference:.1e}")
        if difference > 1e-9:
            raise SystemExit("the distributed weights differ from the one-process weights")


if __name__ == "__main__":
    main()
