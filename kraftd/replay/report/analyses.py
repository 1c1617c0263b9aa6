"""Questions to the tables of a replay, each a function that returns a Spark DataFrame.

    tables = Tables(spark, "OUT")
    hot_topics(tables).show()

The report shows all of them (`page`); in a notebook each stands alone. Offsets named `end` are exclusive,
times are UTC, and what a length of time cannot be more than is said in its column's name (`_at_most`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_log
from kraftd.logtools.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BUCKET_S: Final = 60
"""How long a step of time is unless somebody says so by cluster."""


class Tables:
    """The tables below a directory, as DataFrames."""

    def __init__(self, spark: "SparkSession", out: str | Path) -> None:
        self.spark = spark
        self._out = Path(out)

    def __getitem__(self, name: str) -> "DataFrame":
        return self.spark.read.parquet(str(self._out / name))


def leader_timeline(tables: Tables) -> "DataFrame":
    """Each epoch with its leader, how many epochs before it nobody won, and how long nobody led before it.

    A leader writes at least every half second, so the time between the last record of one and the first of
    the next is about how long there was none: it can have been less, not more.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy("cluster_id").orderBy("start_offset", "epoch")
    gap = _ms("started_at") - f.lag(_ms("last_record_at")).over(before)
    return tables["leader_epochs"].select(
        "cluster_id",
        "epoch",
        "leader_id",
        "started_at",
        "last_record_at",
        (f.col("end_offset") - f.col("start_offset")).alias("records"),
        f.greatest(f.lit(0), f.col("epoch") - f.lag("epoch").over(before) - 1).alias("epochs_nobody_won"),
        f.greatest(f.lit(0), gap).alias("without_leader_ms_at_most"),
    )


def isr_by_broker(tables: Tables) -> "DataFrame":
    """How often each broker left the ISR of a partition, and how often it came back."""
    from pyspark.sql import functions as f

    moves = _isr_moves(tables)
    return moves.groupBy("cluster_id", "broker_id").agg(
        f.sum("shrinks").alias("shrinks"), f.sum("expands").alias("expands")
    )


def isr_by_partition(tables: Tables) -> "DataFrame":
    """How often the ISR of each partition shrank and grew."""
    from pyspark.sql import functions as f

    changed = tables["partition_changes"].where("event = 'changed'")
    return (
        changed.groupBy("cluster_id", "topic_id", "topic", "partition_id")
        .agg(
            f.sum((f.size("isr_removed") > 0).cast("int")).alias("shrinks"),
            f.sum((f.size("isr_added") > 0).cast("int")).alias("expands"),
        )
        .where("shrinks + expands > 0")
    )


def isr_over_time(tables: Tables, steps: Mapping[str, int] | int = BUCKET_S) -> "DataFrame":
    """Brokers that left and came back to ISRs, step by step."""
    from pyspark.sql import functions as f

    moves = _stepped(_isr_moves(tables), steps)
    return moves.groupBy("cluster_id", "time").agg(
        f.sum("shrinks").alias("shrinks"), f.sum("expands").alias("expands")
    )


def broker_fencing(tables: Tables) -> "DataFrame":
    """Each time a broker was fenced, until when, and how long; null where it still is.

    A broker registers fenced and is unfenced once it has caught up, so a registration counts too.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    events = tables["registrations"].where("fenced is not null or event = 'unregistered'")
    after = Window.partitionBy("cluster_id", "broker_id").orderBy("offset")
    following = events.withColumn("until", f.lead("timestamp").over(after))
    return following.where("fenced").select(
        "cluster_id",
        "broker_id",
        "offset",
        f.col("timestamp").alias("fenced_at"),
        f.col("until").alias("until"),
        (_ms("until") - _ms("timestamp")).alias("fenced_ms"),
        "event",
    )


def leadership_churn(tables: Tables, steps: Mapping[str, int] | int = BUCKET_S) -> "DataFrame":
    """How many partitions each broker began and ceased to lead, step by step; broker -1 is no leader."""
    from pyspark.sql import functions as f

    moved = tables["partition_changes"].where("event = 'changed' and leader_before <> leader")
    lost = moved.select("cluster_id", "timestamp", f.col("leader_before").alias("broker_id"))
    won = moved.select("cluster_id", "timestamp", f.col("leader").alias("broker_id"))
    both = (
        lost.withColumn("lost", f.lit(1))
        .withColumn("won", f.lit(0))
        .unionByName(won.withColumn("lost", f.lit(0)).withColumn("won", f.lit(1)))
    )
    return (
        _stepped(both, steps)
        .groupBy("cluster_id", "time", "broker_id")
        .agg(f.sum("won").alias("won"), f.sum("lost").alias("lost"))
    )


def elections_over_time(tables: Tables, steps: Mapping[str, int] | int = BUCKET_S) -> "DataFrame":
    """How often the leader of a partition changed, by the reason, step by step."""
    from pyspark.sql import functions as f

    held = _stepped(tables["elections"], steps)
    return held.groupBy("cluster_id", "time", "reason").agg(f.count("*").alias("elections"))


def elections_by_reason(tables: Tables) -> "DataFrame":
    """How often the leader of a partition changed, by reason and rule, and what told the first reason."""
    from pyspark.sql import functions as f

    return (
        tables["elections"]
        .groupBy("cluster_id", "reason", "rule")
        .agg(f.count("*").alias("elections"), f.min_by("why", "offset").alias("first_known_by"))
    )


def without_leader_by_topic(tables: Tables, most: int = 10) -> "DataFrame":
    """The topics whose partitions were longest without a leader, all partitions added up.

    What is so at the end of the log counts up to its last record; what began before the log, from its first.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    offline = _spans(tables, "partition_states").where("state = 'Offline'")
    lasted = f.greatest(f.lit(0), _ms("until") - _ms("since"))
    counted = offline.groupBy("cluster_id", "topic_id", "topic").agg(
        f.sum(lasted).alias("without_leader_ms"),
        f.max(lasted).alias("longest_ms"),
        f.count("*").alias("times"),
        f.countDistinct("partition_id").alias("partitions"),
        f.sum(f.col("to_offset").isNull().cast("int")).alias("still"),
    )
    rank = Window.partitionBy("cluster_id").orderBy(f.desc("without_leader_ms"), "topic")
    return counted.withColumn("rank", f.row_number().over(rank)).where(f.col("rank") <= most)


def states_over_time(tables: Tables, steps: Mapping[str, int] | int = BUCKET_S) -> "DataFrame":
    """How many partitions and replicas were in each state but Online, at the end of a step that changed it.

    A replica of which it is known that it was deleted is in none.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    spans = _spans(tables, "partition_states").select("cluster_id", "since", "until", "to_offset", "state")
    spans = spans.unionByName(
        _spans(tables, "replica_states").select("cluster_id", "since", "until", "to_offset", "state")
    ).where("state not in ('Online', 'OnlineReplica', 'ReplicaDeletionSuccessful')")
    came = spans.select("cluster_id", "state", f.col("since").alias("timestamp"), f.lit(1).alias("more"))
    went = spans.where("to_offset is not null").select(
        "cluster_id", "state", f.col("until").alias("timestamp"), f.lit(-1).alias("more")
    )
    changed = (
        _stepped(came.unionByName(went), steps)
        .groupBy("cluster_id", "state", "time")
        .agg(f.sum("more").alias("more"))
    )
    so_far = Window.partitionBy("cluster_id", "state").orderBy("time")
    return changed.withColumn("count", f.sum("more").over(so_far)).drop("more")


def _spans(tables: Tables, name: str) -> "DataFrame":
    """The states of a table, with `since` and `until` in the times of the log."""
    from pyspark.sql import functions as f

    log = (
        tables["leader_epochs"]
        .groupBy("cluster_id")
        .agg(f.min("started_at").alias("begins"), f.max("last_record_at").alias("ends"))
    )
    return (
        tables[name]
        .join(f.broadcast(log), "cluster_id", "left")
        .withColumn("since", f.coalesce("from_time", "begins"))
        .withColumn("until", f.coalesce("to_time", "ends"))
    )


def hot_topics(tables: Tables, most: int = 10) -> "DataFrame":
    """The topics of each cluster whose partitions change most."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    changed = tables["partition_changes"].where("event = 'changed'")
    counted = changed.groupBy("cluster_id", "topic_id", "topic").agg(
        f.count("*").alias("changes"),
        f.sum((f.col("leader_before") != f.col("leader")).cast("int")).alias("leader_changes"),
        f.sum((f.size("isr_removed") > 0).cast("int")).alias("shrinks"),
    )
    rank = Window.partitionBy("cluster_id").orderBy(f.desc("changes"), "topic")
    return counted.withColumn("rank", f.row_number().over(rank)).where(f.col("rank") <= most)


def kinds_over_time(tables: Tables, steps: Mapping[str, int] | int = BUCKET_S) -> "DataFrame":
    """Records by kind, step by step, of the node of each cluster that holds most of them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    log = tables["records"].where("not is_snapshot and crc_ok and timestamp is not null")
    counted = (
        _stepped(log, steps)
        .groupBy("cluster_id", "directory", "time", f.coalesce("type", f.lit("undecodable")).alias("type"))
        .agg(f.count("*").alias("records"))
    )
    of_node = Window.partitionBy("cluster_id", "directory")
    of_cluster = Window.partitionBy("cluster_id").orderBy(f.desc("held"), "directory")
    ranked = counted.withColumn("held", f.sum("records").over(of_node))
    return (
        ranked.withColumn("rank", f.dense_rank().over(of_cluster))
        .where("rank = 1")
        .select("cluster_id", "time", "type", "records")
    )


def log_matching(tables: Tables) -> "DataFrame":
    """Each two nodes of a cluster: how many batches both hold alike, and where they first differ, if they do.

    Compared is what both logs cover. Kafka replicates whole batches, so equal logs are equal batch by batch.
    """
    from pyspark.sql import functions as f

    log = (
        tables["batches"]
        .where("not is_snapshot and crc_ok")
        .select(
            "cluster_id",
            "node_id",
            "directory",
            "base_offset",
            "epoch",
            f.struct("last_offset", "epoch", "crc").alias("batch"),
        )
    )
    spans = log.groupBy("cluster_id", "node_id", "directory").agg(
        f.min("base_offset").alias("first"), f.max("base_offset").alias("last")
    )
    left = spans.select("cluster_id", *(f.col(name).alias(f"left_{name}") for name in _SPAN))
    right = spans.select("cluster_id", *(f.col(name).alias(f"right_{name}") for name in _SPAN))
    pairs = left.join(right, "cluster_id").where("left_directory < right_directory")
    pairs = pairs.withColumn("first", f.greatest("left_first", "right_first"))
    pairs = pairs.withColumn("last", f.least("left_last", "right_last"))
    one = _of_pairs(pairs, log, "left")
    two = _of_pairs(pairs, log, "right")
    keys = ["cluster_id", "left_directory", "right_directory", "left_node_id", "right_node_id", "base_offset"]
    both = one.join(two, keys, "full_outer")
    same = f.col("left_batch").eqNullSafe(f.col("right_batch"))
    compared = both.groupBy(*keys[:-1]).agg(
        f.sum(same.cast("long")).alias("equal_batches"),
        f.min(f.when(~same, f.struct("base_offset", "left_epoch", "right_epoch"))).alias("difference"),
    )
    return compared.select(
        *keys[:-1],
        "equal_batches",
        f.col("difference.base_offset").alias("first_difference"),
        f.col("difference.left_epoch").alias("left_epoch"),
        f.col("difference.right_epoch").alias("right_epoch"),
    )


_SPAN: Final = ("node_id", "directory", "first", "last")


def _of_pairs(pairs: "DataFrame", log: "DataFrame", side: str) -> "DataFrame":
    from pyspark.sql import functions as f

    mine = log.select(
        f.col("cluster_id"),
        f.col("directory").alias(f"{side}_directory"),
        "base_offset",
        f.col("epoch").alias(f"{side}_epoch"),
        f.col("batch").alias(f"{side}_batch"),
    )
    found = pairs.join(mine, ["cluster_id", f"{side}_directory"])
    return found.where("base_offset between first and last").select(
        "cluster_id",
        "left_directory",
        "right_directory",
        "left_node_id",
        "right_node_id",
        "base_offset",
        f"{side}_epoch",
        f"{side}_batch",
    )


def snapshots_against_replay(
    spark: "SparkSession", directories: Sequence[tuple[str, int, str]]
) -> "DataFrame":
    """What `kraftctl log verify` says of each node: snapshots against the log that they stand for, and all
    else.

    Args:
        spark: The session.
        directories: Cluster, node and directory of each log; a task each.
    """
    schema = "cluster_id string, node_id int, directory string, snapshots_compared int, problem string"
    logs = spark.sparkContext.parallelize(list(directories), max(1, len(directories)))
    return spark.createDataFrame(logs.flatMap(_verified), schema)


def _verified(log: tuple[str, int, str]) -> list[tuple[str, int, str, int, str | None]]:
    cluster_id, node_id, directory = log
    try:
        (verdict,) = verify([find_log(Path(directory))]).logs
    except UnanswerableError as error:
        return [(cluster_id, node_id, directory, 0, str(error))]
    texts: list[str | None] = [str(problem) for problem in verdict.problems]
    return [(cluster_id, node_id, directory, verdict.snapshot_count, text) for text in texts or [None]]


def _isr_moves(tables: Tables) -> "DataFrame":
    """A row for each broker that left or came back to an ISR."""
    from pyspark.sql import functions as f

    changed = tables["partition_changes"].where("event = 'changed'")
    out = changed.select("cluster_id", "timestamp", f.explode("isr_removed").alias("broker_id"))
    back = changed.select("cluster_id", "timestamp", f.explode("isr_added").alias("broker_id"))
    return (
        out.withColumn("shrinks", f.lit(1))
        .withColumn("expands", f.lit(0))
        .unionByName(back.withColumn("shrinks", f.lit(0)).withColumn("expands", f.lit(1)))
    )


def _stepped(rows: "DataFrame", steps: Mapping[str, int] | int) -> "DataFrame":
    """The rows with the step of time that they are in, as long as their cluster's steps are."""
    from pyspark.sql import functions as f

    if isinstance(steps, int):
        length = f.lit(steps)
    else:
        listed = rows.sparkSession.createDataFrame(list(steps.items()), "cluster_id string, step_s long")
        rows, length = rows.join(f.broadcast(listed), "cluster_id"), f.col("step_s")
    at = f.floor(f.unix_timestamp("timestamp") / length) * length
    return rows.where("timestamp is not null").withColumn("time", f.timestamp_seconds(at))


def _ms(name: str) -> "Column":
    from pyspark.sql import functions as f

    return f.unix_millis(name)
