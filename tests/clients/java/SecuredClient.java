import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own clients at a secured cluster. The steps and the lines of tests/clients/secured_client.py. */
public class SecuredClient {
    public static void main(String[] arguments) throws Exception {
        Properties common = new Properties();
        common.load(new FileReader(arguments[0]));
        String topic = arguments[1];
        String other = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        int transacted = Integer.parseInt(arguments[4]);
        short replication = Short.parseShort(arguments[5]);
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic(topic, 3, replication))).all().get();
        }
        Properties serializing = with(common, "key.serializer", StringSerializer.class.getName());
        serializing.put("value.serializer", StringSerializer.class.getName());
        KafkaProducer<String, String> plain = new KafkaProducer<>(serializing);
        System.out.println("{\"ready\": true}");
        System.in.read();
        for (int i = 0; i < count; i++) {
            plain.send(new ProducerRecord<>(topic, "value-" + i), (place, error) -> {
                if (error != null) throw new IllegalStateException(error);
            });
            Thread.sleep(20);
        }
        plain.flush();
        try (KafkaProducer<String, String> writer = new KafkaProducer<>(with(serializing, "transactional.id", topic))) {
            writer.initTransactions();
            for (int i = 0; i < transacted; i++) {
                writer.beginTransaction();
                writer.send(new ProducerRecord<>(topic, "transacted-" + i));
                writer.commitTransaction();
            }
        }
        Properties reading = with(common, "group.id", topic);
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("key.deserializer", StringDeserializer.class.getName());
        reading.put("value.deserializer", StringDeserializer.class.getName());
        Set<String> read = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading)) {
            consumer.subscribe(List.of(topic));
            while (read.size() < count + transacted)
                consumer.poll(Duration.ofMillis(500)).forEach(record -> read.add(record.value()));
        }
        String refused = "";
        try {
            plain.send(new ProducerRecord<>(other, "x")).get();
        } catch (ExecutionException error) {
            refused = error.getCause().toString();
        }
        plain.close();
        String values = read.stream().map(value -> "\"" + value + "\"").collect(Collectors.joining(", "));
        System.out.println("{\"read\": [" + values + "], \"refused\": \"" + refused + "\"}");
    }

    static Properties with(Properties base, String name, String value) {
        Properties made = new Properties();
        made.putAll(base);
        made.put(name, value);
        return made;
    }
}
