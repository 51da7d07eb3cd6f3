import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What copy_process.py does, with Kafka's own clients and so by the second protocol of transactions. */
public class CopyProcess {
    static final int FENCED = 3;
    static final int GIVEN_UP = 4;
    static volatile boolean stopping = false;

    final FileOutputStream notes;
    final String source;
    final String target;
    final int partitions;
    final String label;
    final Random chance;
    final KafkaProducer<String, String> producer;
    final KafkaConsumer<String, String> consumer;
    int attempts = 0;

    CopyProcess(String[] words) throws IOException {
        source = words[1];
        target = words[2];
        partitions = Integer.parseInt(words[3]);
        String name = words[5];
        notes = new FileOutputStream(words[6], true);
        label = name + "." + words[7];
        chance = new Random(words[7].hashCode());
        Properties common = new Properties();
        common.put("bootstrap.servers", words[0]);
        common.put("reconnect.backoff.max.ms", "500");
        Properties writing = new Properties();
        writing.putAll(common);
        writing.put("transactional.id", name);
        writing.put("transaction.timeout.ms", "8000");
        writing.put("max.block.ms", "15000");
        producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("group.id", words[4]);
        reading.put("isolation.level", "read_committed");
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("max.poll.records", "200");
        reading.put("fetch.max.wait.ms", "100");
        for (int i = 8; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            reading.put(setting[0], setting[1]);
        }
        consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
    }

    void tell(String what, String value, String more) {
        String line = String.format(
            "{\"what\": \"%s\", \"value\": \"%s\"%s, \"at\": %.3f}\n",
            what, value.replace('"', '\'').replace("\\", "/").replace("\n", " "), more,
            System.currentTimeMillis() / 1000.0);
        try {
            notes.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    int run() throws InterruptedException {
        try {
            producer.initTransactions();
            tell("ready", "", "");
            consumer.subscribe(List.of(source));
            while (!stopping) {
                // This consumer joins again by itself, in a thread of its own, while the records of
                // its last membership are being copied. Commit in the epoch in which they were read:
                // in a later one they may belong to somebody else. (With the later one, copies are
                // doubled on Apache Kafka, too.)
                int epoch = consumer.groupMetadata().generationId();
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) {
                    continue;
                }
                ConsumerGroupMetadata member = consumer.groupMetadata();
                if (member.generationId() != epoch || !copy(records, member)) {
                    rewind();
                }
            }
            consumer.close();
        } catch (ProducerFencedException failure) {
            tell("fenced", failure.toString(), "");
            consumer.close();
            return FENCED;
        } catch (KafkaException failure) {
            tell("given up", failure + " " + failure.getCause(), "");
            consumer.close();
            return failure.getCause() instanceof ProducerFencedException ? FENCED : GIVEN_UP;
        } catch (IllegalStateException failure) {
            // A fault of Kafka's consumer, when it is put out of the group within its own poll.
            if (!String.valueOf(failure.getMessage()).startsWith("No current assignment for")) {
                throw failure;
            }
            tell("given up", failure.toString(), "");
            consumer.close();
            return GIVEN_UP;
        }
        tell("stopped", "", "");
        return 0;
    }

    /** Returns false if the transaction was aborted: the consumer has to read the records again. */
    boolean copy(ConsumerRecords<String, String> records, ConsumerGroupMetadata member)
            throws InterruptedException {
        String attempt = label + "." + ++attempts;
        tell("begin", attempt, ", \"count\": " + records.count());
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                int number = Integer.parseInt(record.key().substring(record.key().lastIndexOf('-') + 1));
                String value = record.value() + " " + attempt;
                producer.send(new ProducerRecord<>(target, number / 2 % partitions, record.key(), value));
                ends.put(
                    new TopicPartition(source, record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
            }
            linger();
            if (chance.nextDouble() < 0.08) {
                producer.flush();
                abort(attempt, "by itself");
                return false;
            }
            producer.sendOffsetsToTransaction(ends, member);
            linger();
            tell("committing", attempt, "");
            commit();
        } catch (ProducerFencedException failure) {
            throw failure;
        } catch (KafkaException failure) {
            abort(attempt, failure.toString());
            return false;
        }
        tell("committed", attempt, "");
        return true;
    }

    /** To ask again is safe, and the only way to learn how it ended. */
    void commit() {
        try {
            producer.commitTransaction();
        } catch (TimeoutException failure) {
            producer.commitTransaction();
        }
    }

    void linger() throws InterruptedException {
        if (chance.nextDouble() < 0.3) {
            Thread.sleep(chance.nextInt(150));
        }
    }

    void abort(String attempt, String reason) {
        producer.abortTransaction();
        tell("aborted", attempt, ", \"reason\": \"" + reason.replace('"', '\'').replace("\n", " ") + "\"");
    }

    void rewind() {
        Map<TopicPartition, OffsetAndMetadata> stored = consumer.committed(consumer.assignment());
        for (TopicPartition one : consumer.assignment()) {
            OffsetAndMetadata offset = stored.get(one);
            if (offset == null) {
                consumer.seekToBeginning(List.of(one));
            } else {
                consumer.seek(one, offset);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join();
            } catch (InterruptedException failure) {
                throw new IllegalStateException(failure);
            }
        }));
        int code = GIVEN_UP;
        try {
            code = new CopyProcess(words).run();
        } catch (Throwable failure) {
            failure.printStackTrace();
        }
        Runtime.getRuntime().halt(code);
    }
}
