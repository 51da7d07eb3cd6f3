import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own producer through a script of steps, one a line of the output. */
public class TransactionalClient {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        KafkaProducer<String, String> first = producer(bootstrap, topic, 60000);
        first.initTransactions();
        for (int i = 0; i < 20; i++) {
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, i % 3, null, "committed-" + i));
            first.commitTransaction();
        }
        say("committed");
        first.beginTransaction();
        first.send(new ProducerRecord<>(topic, 0, null, "aborted"));
        first.flush();
        first.abortTransaction();
        first.beginTransaction();
        first.abortTransaction();
        say("aborted");
        first.beginTransaction();
        first.send(new ProducerRecord<>(topic, 1, null, "with-offsets"));
        first.sendOffsetsToTransaction(
            Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7)),
            new ConsumerGroupMetadata("group-of-" + topic));
        first.commitTransaction();
        say("offsets committed");
        first.beginTransaction();
        first.send(new ProducerRecord<>(topic, 0, null, "of a zombie")).get();
        KafkaProducer<String, String> second = producer(bootstrap, topic, 60000);
        second.initTransactions();
        try {
            first.commitTransaction();
            say("a zombie committed");
        } catch (KafkaException error) {
            say("zombie: " + error.getClass().getSimpleName());
        }
        second.beginTransaction();
        second.send(new ProducerRecord<>(topic, 0, null, "of the second"));
        second.commitTransaction();
        say("second committed");
        KafkaProducer<String, String> slow = producer(bootstrap, topic + "-slow", 1000);
        slow.initTransactions();
        slow.beginTransaction();
        slow.send(new ProducerRecord<>(topic, 2, null, "too late")).get();
        Thread.sleep(Long.parseLong(arguments[2]));
        try {
            slow.commitTransaction();
            say("too late, but committed");
        } catch (KafkaException error) {
            say("slow: " + error.getClass().getSimpleName());
        }
        first.close(Duration.ZERO);
        second.close();
        slow.close(Duration.ZERO);
    }

    static KafkaProducer<String, String> producer(String bootstrap, String id, int timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", Integer.toString(timeoutMs));
        settings.put("delivery.timeout.ms", Integer.toString(timeoutMs < 5000 ? 1000 : 20000));
        settings.put("request.timeout.ms", timeoutMs < 5000 ? "900" : "10000");
        settings.put("linger.ms", "0");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static void say(String line) {
        System.out.println(line);
    }
}
